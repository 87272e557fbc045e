"""Scores on sources that were left out, and the model card."""
