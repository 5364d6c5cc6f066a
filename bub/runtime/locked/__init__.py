"""What is loaded, held against the lock beside the pipeline file: a start under a lock refuses what has drifted."""
