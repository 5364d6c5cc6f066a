"""What is known of installed packages beside their plugins: which of them were added, and the pipelines they bring."""
