"""From plans and rows of a table to the arrays that the physics takes."""
