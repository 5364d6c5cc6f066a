"""Fakes of services. Each speaks the real protocol over real sockets; the service's real client judges it."""
