"""What a user meets everywhere: errors with a remedy, option records, progress, notebook views."""
