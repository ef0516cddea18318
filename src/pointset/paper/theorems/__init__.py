"""The paper's statements, one file for each group of them."""
