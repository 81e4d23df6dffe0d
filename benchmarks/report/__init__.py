"""What a run of the suite leaves behind: a table, a JSON file, plots."""
