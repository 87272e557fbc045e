"""What rules ask of a case, and the fixes they propose."""
