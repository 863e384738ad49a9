"""Handing a message to the server that sends it, on a thread. Edge to smtplib."""

from __future__ import annotations

import contextlib
import smtplib
from collections.abc import Iterator, Sequence
from email.message import EmailMessage

from nacre.bridges.channels.secure_connection import (
    check_password_is_safe,
    connect_problem,
    tls_context,
)
from nacre.bridges.contracts.errors import BridgeError, DeliveryRefused, NotDelivered
from nacre.extensions.email.settings import EmailSettings

TIMEOUT_SECONDS = 60.0
TLS_PORT = 465
LATER_SECONDS = 300.0


def submit(mail: EmailMessage, to: Sequence[str], settings: EmailSettings) -> None:
    """Sends a message.

    Raises:
        NotDelivered: the server did not take it, and may later.
        DeliveryRefused: it never will.
        OSError: the connection broke behind the message, so that nobody knows.
    """
    try:
        server = _connected(settings)
    except BridgeError as error:
        raise NotDelivered(str(error), retry_after_seconds=LATER_SECONDS) from error
    try:
        with _refusals():
            server.ehlo_or_helo_if_needed()
            _accepted(server.mail(settings.address))
            for address in to:
                _accepted(server.rcpt(address))
        # Of what happens from here on nobody knows, unless the server says it.
        try:
            _accepted(server.data(mail.as_bytes()))
        except smtplib.SMTPDataError as error:
            raise _refusal(error.smtp_code, error.smtp_error) from error
        except smtplib.SMTPServerDisconnected as error:
            raise ConnectionError(f"{settings.smtp_host} hung up behind the message") from error
    finally:
        with contextlib.suppress(smtplib.SMTPException, OSError):
            server.quit()
        server.close()


def _connected(settings: EmailSettings) -> smtplib.SMTP:
    address = settings.smtp
    check_password_is_safe(address)
    context = tls_context(address.ca_file, address.setting) if address.tls else None
    try:
        if context is not None and address.port == TLS_PORT:
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                address.host, address.port, timeout=TIMEOUT_SECONDS, context=context
            )
        else:
            server = smtplib.SMTP(address.host, address.port, timeout=TIMEOUT_SECONDS)
            if context is not None:
                server.starttls(context=context)
        password = settings.password.get_secret_value()
        if password and server.ehlo()[0] == 250 and server.has_extn("auth"):
            server.login(settings.login, password)
    except smtplib.SMTPAuthenticationError as error:
        raise NotDelivered(
            f"{address.host} refuses the login of {settings.login} (channels.email.password)"
        ) from error
    except smtplib.SMTPException as error:
        raise NotDelivered(f"{address.host} does not take messages: {error}") from error
    except OSError as error:
        raise NotDelivered(connect_problem(address, error)) from error
    return server


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (smtplib.SMTPException, OSError) as error:
        raise NotDelivered(f"the server did not take the message: {error}") from error


def _accepted(answer: tuple[int, bytes]) -> None:
    code, words = answer
    if not 200 <= code < 300:
        raise _refusal(code, words)


def _refusal(code: int, words: bytes | str) -> BridgeError:
    why = f"the server says {code} {words.decode('utf-8', 'replace') if isinstance(words, bytes) else words}"
    if code >= 500:
        return DeliveryRefused(why)
    return NotDelivered(why, retry_after_seconds=LATER_SECONDS, holds_chat=False)
