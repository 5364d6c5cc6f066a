"""OpenAI's API, as far as Bub can honour it: each profile that a client's token reaches is a model.

`reading`, `conversation`, `chat_request` and `responses_request` say what a request means, `chat` and `responses` write
the answer in the words of either API, `errors` what went wrong. They know no socket and no turn.
"""
