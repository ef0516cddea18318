"""Graph ⇄ points. Knows no model and no dataset."""
