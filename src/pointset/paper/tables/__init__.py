"""The tables of the paper, run here and shown beside what the paper prints."""
