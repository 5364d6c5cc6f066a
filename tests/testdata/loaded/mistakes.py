"""A plugin with one mistake of each kind."""

from bub import hookimpl


class Mistakes:
    @hookimpl
    def mesage_received(self, message):
        """A hook that does not exist."""

    @hookimpl
    def build_prompt(self, message, sesion_id):
        """An argument that nobody passes."""

    @hookimpl
    async def system_prompt(self, prompt, state):
        """A point that cannot wait."""

    @hookimpl
    def run_model(self, prompt):
        return ""

    @hookimpl
    async def run_model_stream(self, prompt):
        """The same once more."""


plugin = Mistakes()
