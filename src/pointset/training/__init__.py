"""Recipes, training, runs, bundles and predictions. Imports points, encoders and datasets; loaded where needed."""
