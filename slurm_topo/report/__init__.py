"""What was placed and what it was worth: numbers first, then table, CSV, JSON, HTML and PDF."""
