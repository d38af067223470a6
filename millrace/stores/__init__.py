"""What a pattern keeps outside its engines: topics, files and tables. Each can be ensured, read and removed."""
