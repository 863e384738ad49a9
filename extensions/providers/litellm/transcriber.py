"""Any model that litellm knows for writing down what is said: one recording in, its words out.

What is sent is the recording, under a name of ours, and its language where one is set. The provider's errors
become `ModelError` kinds without keys and go no further.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.extensions.providers.completions.errors import CallFacts, classify
from nacre.extensions.providers.completions.keys import key_for_litellm
from nacre.extensions.providers.completions.side_calls import Bill, SideCalls
from nacre.extensions.providers.litellm import loading as litellm_loading
from nacre.runtime.contracts.errors import BadModelReply, ConfigError, ModelError
from nacre.runtime.models.spending import SpendingLedger


class LiteLLMTranscriber:
    """A transcriber by its litellm name, `provider/model`, at `base_url` or the provider's own address.

    Without an `api_key` the provider's variable in the environment has it; a server of one's own needs none.
    `language` is a code such as `de`; blank lets the model find it out. `ledger` gets what each recording
    cost, and has the cap.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None,
        api_key: str | None,
        language: str,
        now_seconds: Callable[[], float],
        ledger: SpendingLedger,
    ) -> None:
        self.name = name
        self._base_url = base_url
        self._api_key = api_key
        self._language = language
        self._now_seconds = now_seconds
        self._retained = False
        self._calls = SideCalls(
            ledger, "transcription", model=name, address=base_url, now_ms=lambda: int(now_seconds() * 1000)
        )

    async def transcribe(self, file_name: str, data: bytes, *, timeout_seconds: float) -> str:
        """The words of a recording, as the model wrote them; providers tell its format by `file_name`.

        Raises:
            ModelError: there are none; asked once, it is not asked again.
        """
        async with self._calls.recording(file_name, len(data)) as bill:
            answer = await self._asked(file_name, data, timeout_seconds)
            _settle(bill, answer)
        text = getattr(answer, "text", None)
        if not isinstance(text, str):
            raise BadModelReply(
                f"The model {self.name!r} answered a recording with something else than text."
            )
        return text

    async def _asked(self, file_name: str, data: bytes, timeout_seconds: float) -> Any:
        try:
            litellm = await litellm_loading.load_litellm()
            if not self._retained:
                self._retained = True
                litellm_loading.retain_clients()
            return await litellm.atranscription(
                model=self.name,
                file=(file_name, data),
                api_base=self._base_url,
                api_key=key_for_litellm(self.name, base_url=self._base_url, api_key=self._api_key),
                timeout=timeout_seconds,
                **({"language": self._language} if self._language else {}),
                **litellm_loading.one_request_arguments(),
            )
        except ConfigError as error:
            raise ModelError(str(error)) from error
        # litellm raises its own errors, those of httpx and OpenAI's library, and bare ones of Python
        except Exception as error:
            raise self._failure(error) from error

    async def close(self) -> None:
        """Closes the connections, unless an open model on this event loop still uses them."""
        if self._retained:
            self._retained = False
            await litellm_loading.release_clients()

    def _failure(self, error: Exception) -> ModelError:
        facts = CallFacts(
            model_name=self.name,
            api_base=self._base_url,
            key_is_configured=bool(self._api_key),
            secrets=(self._api_key,) if self._api_key else (),
            now_seconds=self._now_seconds(),
        )
        return classify(error, facts)


def _settle(bill: Bill, answer: Any) -> None:
    """Takes the seconds or tokens that the provider told, if it told any."""
    usage = getattr(answer, "usage", None)
    seconds = getattr(usage, "seconds", None) or getattr(answer, "duration", None)
    heard, written = getattr(usage, "input_tokens", None), getattr(usage, "output_tokens", None)
    if isinstance(seconds, int | float) and seconds > 0:
        bill.took_seconds(seconds)
    elif isinstance(heard, int) and heard > 0:
        bill.took_tokens(heard, written if isinstance(written, int) else 0)
