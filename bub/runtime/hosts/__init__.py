"""What plugins run on that do not run where Bub does: for now, asyncio loops."""
