"""What a hook is and how it is called: facts about kinds, implementations, binding, calling.

Which hooks exist is said by the door `bub/hookspecs.py`; which stages call them, by a pipeline."""
