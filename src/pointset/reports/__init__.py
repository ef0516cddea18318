"""Pictures and pages. Reads points and records of runs, never models or datasets."""
