"""What the methods can and cannot do, as experiments that anyone can run: expressivity, tables, comparison."""
