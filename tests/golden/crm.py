"""The plugin of `bot.yaml`; nothing imports it."""
