"""The loopback model provider of the tests: `nacre.testing.ProviderServer`."""

from nacre.runtime.models.scripted_provider import ProviderServer as ProviderServer, Responder as Responder
