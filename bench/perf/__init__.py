"""What is measured, and written down beside what it is measured against: commands, no tests."""
