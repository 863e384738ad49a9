"""Numbers in groups, in the ways in which people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nacre.memory.text.forms.spelling import written_together


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Plumber: 415-555-0132", "4155550132"),
        ("call (415) 555-0132.", "4155550132"),
        ("+1 (415) 555 0132", "14155550132"),
        ("+1 (415) 555 0132", "4155550132"),
        ("+49 (0)30 1234 5678", "03012345678"),
        ("030/12345678", "03012345678"),
        ("DE89 3704 0044 0532 0130 00", "de89370400440532013000"),
        ("ISBN 978-3-16-148410-0", "9783161484100"),
        ("ISBN 0-306-40615-X", "030640615x"),
        ("1,249.00", "1249"),
        ("1.249,50 €", "1249"),
        ("1 249", "1249"),
        ("1'249'000", "1249000"),
        ("12,34,567 rupees", "1234567"),
    ],
)
def test_a_number_in_groups_is_also_one_number(text: str, number: str) -> None:
    """What parts its groups says nothing."""
    assert number in [joined for _, joined in written_together(text)]


@pytest.mark.parametrize(
    "text",
    [
        *("", "no number", "4155550132", "2026-02-10 14:30", "3.11.7", "0.125", "10:30", "1-2", "v1.2.3"),
        *("2026-02-10", "12.5", "A1 B2 C3", "he16 said that they were late"),
    ],
)
def test_other_numbers_stay_as_they_are(text: str) -> None:
    """Days, times, versions, decimals and short groups are not put together."""
    assert list(written_together(text)) == []


@given(st.text(st.sampled_from("0123456789 .,-+()/xXDE'a\n"), max_size=60))
def test_lines_in_ascii_are_read_as_all_others(text: str) -> None:
    """There, lines without digits are passed over in another way than beside a line in another script."""
    assert list(written_together(text)) == list(written_together(f"{text}\nпривет"))


@given(st.integers(1, 10**12), st.sampled_from([",", ".", "'", " "]))
def test_an_amount_is_the_same_with_any_sign_between_its_thousands(amount: int, sign: str) -> None:
    """Whatever the country, the digits are what is found."""
    written = f"{amount:,}".replace(",", sign)
    assert amount < 1000 or str(amount) in [joined for _, joined in written_together(f"paid {written} today")]


@given(st.text(st.sampled_from("0123456789 .,-+()/xXDE'a\n"), max_size=60))
def test_what_is_put_together_is_one_word_of_the_text(text: str) -> None:
    """No sign is left, and nothing comes in but the zero that is dialled."""
    for written, joined in written_together(text):
        assert joined.isalnum()
        assert len(joined) <= len(written) + 1
