"""The sheets: a text, files, a mix or choices in; findings, verdicts, layouts or a table out."""
