"""Which re-ranker the settings ask for: decisions and thin construction. Loads nothing and asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.memory.contracts.settings import RerankSettings, at_home
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.settings.disk.variables import unset_in
from nacre.runtime.settings.sections.models import ProviderSettings

if TYPE_CHECKING:
    from nacre.memory.search.rerankers.reranker import Reranker
    from nacre.runtime.models.spending.ledger import SpendingLedger

LOCAL = "sentence-transformers"


def reranker_for(
    settings: RerankSettings,
    providers: Mapping[str, ProviderSettings],
    *,
    home: Path,
    now_seconds: Callable[[], float],
    ledger: Callable[[], SpendingLedger],
) -> Reranker | None:
    """The re-ranker that `memorySearch.query.rerank` asks for; `None` without a provider, or with `none`.

    `providers` is `models.providers`, which has what `query.rerank` leaves open: address and key. `home` is
    what a `~` before a model's folder means. `ledger` counts what a provider is paid, and has the cap.

    Raises:
        ConfigError: there is no model.
    """
    provider, model = (settings.provider or "").strip().lower(), (settings.model or "").strip()
    if provider in ("", "none"):
        return None
    if not model:
        raise ConfigError(
            f"memorySearch.query.rerank.model is missing: the provider {provider!r} has no usual re-ranker. "
            "Name one."
        )
    # most searches have no re-ranker
    if provider == LOCAL:
        from nacre.extensions.providers.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(at_home(model, home))
    from nacre.extensions.providers.litellm.reranker import LiteLLMReranker

    shared = providers.get(provider, ProviderSettings())
    if unset_in("" if settings.api_key else shared):
        return None  # the settings' own notice has told it
    return LiteLLMReranker(
        f"{provider}/{model.removeprefix(f'{provider}/')}",
        base_url=(settings.base_url or "").strip() or shared.base_url.strip() or None,
        api_key=(settings.api_key or "").strip() or shared.api_key.strip() or None,
        now_seconds=now_seconds,
        ledger=ledger(),
    )
