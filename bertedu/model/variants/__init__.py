"""What came after BERT: one idea a file, beside the six files that make BERT."""
