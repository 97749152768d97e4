"""Customers' names on a page: in the order, the shapes and the letters in which their readers write them."""

from __future__ import annotations

import io
import unicodedata
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader

from shared.jobs._invoice_csv import Invoice
from shared.jobs._invoice_pdf import InvoicePdf
from shared.jobs._pdf_text import lines_of, not_shown

INVOICE = Invoice(
    "A-1",
    date(2026, 5, 1),
    date(2026, 5, 31),
    "x",
    "EUR",
    Decimal("1.00"),
    Decimal(19),
    Decimal("0.19"),
    Decimal("1.19"),
)


def document_for(customer: str, number: str = "A-1") -> bytes:
    pdf = InvoicePdf("acme-eu", "2026-05")
    pdf.add_page(replace(INVOICE, customer=customer, invoice_number=number))
    return pdf.finish()


def page_of(customer: str, number: str = "A-1") -> str:
    """The page's letters as they stand on it, from left to right (pypdf's plain mode turns lines round by itself)."""
    page = PdfReader(io.BytesIO(document_for(customer, number))).pages[0]
    return str(page.extract_text(extraction_mode="layout"))


def seen(text: str) -> str:
    (line,) = lines_of(text, lambda _: 1.0, 1000)
    return line


@pytest.mark.parametrize(
    "name",
    [
        "Žluťoučký kůň s.r.o.",
        "Ørsted & Ærø A/S",
        "Łąka i Źródło",
        "Ελιά Α.Ε.",
        "Пекарна Синя Гора",
        "株式会社髙島 〜",
        "中国电信 臺灣",
        "주식회사 한국",
        "株式会社 Ørsted 한국 Пекарна",
        "<b>&amp; %s {0} \\n (x) [y] /Type /Page >>",
    ],
)
def test_a_customer_of_any_script_is_on_the_page(name: str) -> None:
    assert not_shown(name) is None
    assert name in page_of(name)


@pytest.mark.parametrize("name", ["株式会社髙島", "Žluťoučký kůň", "주식회사", "שלום", "شركة"])
def test_every_letter_is_drawn_with_a_font_that_is_in_the_file(name: str) -> None:
    page = PdfReader(io.BytesIO(document_for(name))).pages[0]
    fonts = [font.get_object() for font in page["/Resources"]["/Font"].values()]  # type: ignore[index]

    assert fonts
    for font in fonts:
        descriptor = font["/FontDescriptor"] if font["/BaseFont"] != "/Helvetica" else None
        assert descriptor is None or "/FontFile2" in descriptor
    assert len(document_for(name)) < 60_000, "and only with the letters that it needs"


# From right to left. Hebrew letters are alef א, bet ב, gimel ג; what is seen is written from left to right.


@pytest.mark.parametrize(
    ("written", "on_the_page"),
    [
        ("\u05d0\u05d1\u05d2", "\u05d2\u05d1\u05d0"),
        ("Acme \u05d0\u05d1\u05d2 Ltd", "Acme \u05d2\u05d1\u05d0 Ltd"),
        ("\u05d0\u05d1 Ltd", "Ltd \u05d1\u05d0"),
        ("\u05d0\u05d1 12-13", "12-13 \u05d1\u05d0"),
        ("\u05d0\u05d1 (\u05d2)", "(\u05d2) \u05d1\u05d0"),
        ('\u05d0\u05d1"\u05d2 7', '7 \u05d2"\u05d1\u05d0'),
        ("(\u05d0) x", "x (\u05d0)"),
        ("x (\u05d0)", "x (\u05d0)"),
    ],
)
def test_hebrew_is_seen_from_right_to_left_and_what_is_between_it_in_its_own_order(
    written: str, on_the_page: str
) -> None:
    assert seen(written) == on_the_page
    assert on_the_page in page_of(written)


@pytest.mark.parametrize(
    ("written", "on_the_page"),
    [
        # beh at the beginning, teh in the middle, noon at the end
        ("\u0628\u062a\u0646", "\ufee6\ufe98\ufe91"),
        # dal joins to the right only, so that beh stands alone behind it
        ("\u062f\u0628", "\ufe8f\ufea9"),
        # lam and alef are one letter
        ("\u0628\u0644\u0627", "\ufefc\ufe91"),
        # Persian peh and gaf
        ("\u067e\u06af", "\ufb93\ufb58"),
        # a joiner that keeps two letters apart is not drawn
        ("\u0628\u200c\u0628", "\ufe8f\ufe8f"),
        # digits of both kinds keep their order
        ("\u0628 12 \u0663\u0664", "\u0663\u0664 12 \ufe8f"),
    ],
)
def test_arabic_letters_are_joined(written: str, on_the_page: str) -> None:
    assert not_shown(written) is None
    assert seen(written) == on_the_page
    assert on_the_page in page_of(written)


@pytest.mark.parametrize(
    "name", ["\u0639\u0628\u062f \u0627\u0644\u0644\u0647", "\u0644\u0622\u0644\u0623\u0644\u0625"]
)
def test_no_shape_is_chosen_that_the_font_lacks(name: str) -> None:
    assert not_shown(name) is None
    assert "Gross" in page_of(name)


def test_vowel_marks_are_kept() -> None:
    for name in ("\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", "\u0645\u064f\u062d\u064e\u0645\u064e\u0651\u062f"):
        marks = [c for c in unicodedata.normalize("NFC", name) if unicodedata.combining(c)]
        assert sorted(c for c in seen(name) if unicodedata.combining(c)) == sorted(marks)


def test_a_label_stays_on_the_left_of_a_number_in_hebrew_letters() -> None:
    assert "Number: 17-\u05d0" in page_of("x", number="\u05d0-17")


def test_a_long_name_from_right_to_left_begins_on_its_first_line() -> None:
    words = [f"\u05d0{letter}" for letter in "\u05d1\u05d2\u05d3\u05d4"]

    lines = lines_of(" ".join(words), lambda text: float(len(text)), 6)

    assert [line.strip() for line in lines] == ["\u05d2\u05d0 \u05d1\u05d0", "\u05d4\u05d0 \u05d3\u05d0"]


# What cannot be shown


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("Amulet \U0001f9ff Ltd", "U+1F9FF NAZAR AMULET"),
        ("𠮷野家", "U+20BB7 CJK"),
        ("Safe\u202egnp.exe", "U+202E RIGHT-TO-LEFT"),
        ("Zero\u200bWidth", "U+200B ZERO WIDTH SPACE"),
        ("Zero\u200cWidth", "U+200C ZERO WIDTH NON-JOINER"),
        ("\u200c\u0628", "U+200C ZERO WIDTH NON-JOINER"),
        ("Private \ue000", "U+E000"),
        ("Grey\nfen", "U+000A"),
        ("ไทย", "U+0E44 THAI"),
        ("कम्पनी", "U+0915 DEVANAGARI"),
        ("ߊߋ", "U+07CA NKO"),
        ("\u06d5", "U+06D5 ARABIC LETTER AE"),
        ("\u1112x", "U+1112 HANGUL"),
        ("葛\U000e0100", "U+E0100 VARIATION"),
        ("x\u3164", "U+3164 HANGUL FILLER"),
    ],
)
def test_what_no_font_shows_is_named_never_dropped_and_never_drawn_wrongly(name: str, named: str) -> None:
    found = not_shown(name)

    assert found is not None
    assert found.startswith(named[:30])
    assert len(found) <= 30


def test_a_letter_with_its_accent_behind_it_is_drawn_as_one() -> None:
    assert not_shown("E\u0301cole") is None
    assert "École" in page_of("E\u0301cole")


@pytest.mark.parametrize("name", ["W" * 200, "long words " * 18, "株" * 200, "שלום " * 40, "\u0628" * 200])
def test_the_longest_name_is_wrapped_inside_the_page(name: str) -> None:
    boxes: list[float] = []
    page = PdfReader(io.BytesIO(document_for(name.strip()))).pages[0]
    text = page.extract_text(visitor_text=lambda text, _cm, tm, *_: boxes.append(tm[5]) if text.strip() else None)

    assert sum(not c.isspace() for c in text) >= sum(not c.isspace() for c in name)
    assert max(len(line) for line in text.splitlines()) < 150
    assert "Gross" in text
    assert min(boxes) > 50


@settings(max_examples=150, deadline=None)
@given(
    customer=st.text(
        st.characters(exclude_categories=["Cs"])
        | st.characters(min_codepoint=0x590, max_codepoint=0x6FF)
        | st.sampled_from("\u0627\u0644\u0647\u0645\u062d\u0644\u0627\u064e\u0651\u0640")
        | st.sampled_from("ab (1)\u200c"),
        min_size=1,
        max_size=60,
    )
)
def test_a_name_is_either_named_as_not_shown_or_every_letter_of_it_is_on_the_page(customer: str) -> None:
    if not_shown(customer) is None:
        text = page_of(customer)
        assert "Gross" in text
        for c in unicodedata.normalize("NFC", customer):
            # Joined letters have code points of their own, which say what they are made of.
            plain = c.isspace() or c == "\u200c" or unicodedata.bidirectional(c) == "AL" or unicodedata.combining(c)
            assert plain or c in text or (unicodedata.mirrored(c) and len(c) == 1), f"{c!r} of {customer!r}"
