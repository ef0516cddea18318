"""What a report of training runs is made of: reading the run's files, its charts, its sections, its templates."""
