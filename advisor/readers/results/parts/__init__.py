"""What several readers of result files share: plain text, tables, what an engine says of itself."""
