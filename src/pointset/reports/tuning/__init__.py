"""What a report of a study (``pointset tune``) is made of. The pictures need matplotlib, the page jinja2."""
