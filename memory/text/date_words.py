"""Words for days, weeks, months and years in a handful of languages, lower-case. Data only."""

from __future__ import annotations

_MONTH_NAMES = (
    "january jan januar janvier enero gennaio janeiro januari",
    "february feb februar février febrero febbraio fevereiro februari",
    "march mar märz mars marzo março maart",
    "april apr avril abril aprile",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août agosto augustus",
    "september sep sept septembre septiembre settembre setembro",
    "october oct okt oktober octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dez dezember décembre diciembre dicembre dezembro",
)
MONTHS: dict[str, int] = {name: at for at, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
"""Month name → 1…12."""

_WEEKDAY_NAMES = (
    "monday montag lundi lunes",
    "tuesday dienstag mardi martes",
    "wednesday mittwoch mercredi miércoles",
    "thursday donnerstag jeudi jueves",
    "friday freitag vendredi viernes",
    "saturday samstag samedi sábado",
    "sunday sonntag dimanche domingo",
)
WEEKDAYS: dict[str, int] = {name: at for at, names in enumerate(_WEEKDAY_NAMES) for name in names.split()}
"""Weekday name → 0 (Monday) … 6."""

DAY_WORDS: dict[str, int] = {
    "the day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "tomorrow": 1,
    "vorgestern": -2,
    "gestern": -1,
    "heute": 0,
    "avant-hier": -2,
    "hier soir": -1,
    "aujourd'hui": 0,
    "anteayer": -2,
    "ayer": -1,
    "hoy": 0,
    "ieri": -1,
    "oggi": 0,
    "ontem": -1,
    "hoje": 0,
    "вчера": -1,
    "сегодня": 0,
    "позавчера": -2,
    "前天": -2,
    "昨天": -1,
    "昨晚": -1,
    "今天": 0,
    "明天": 1,
    "昨日": -1,
    "一昨日": -2,
    "今日": 0,
    "어제": -1,
    "그저께": -2,
    "오늘": 0,
}
"""A word for one day → days from today."""

PERIOD_WORDS: dict[str, tuple[str, int]] = {
    "last week": ("week", -1),
    "this week": ("week", 0),
    "last month": ("month", -1),
    "this month": ("month", 0),
    "last year": ("year", -1),
    "this year": ("year", 0),
    "letzte woche": ("week", -1),
    "diese woche": ("week", 0),
    "letzten monat": ("month", -1),
    "letztes jahr": ("year", -1),
    "la semaine dernière": ("week", -1),
    "le mois dernier": ("month", -1),
    "l'année dernière": ("year", -1),
    "la semana pasada": ("week", -1),
    "el mes pasado": ("month", -1),
    "el año pasado": ("year", -1),
    "上周": ("week", -1),
    "上週": ("week", -1),
    "上星期": ("week", -1),
    "上个星期": ("week", -1),
    "这周": ("week", 0),
    "本周": ("week", 0),
    "上个月": ("month", -1),
    "上個月": ("month", -1),
    "这个月": ("month", 0),
    "本月": ("month", 0),
    "去年": ("year", -1),
    "今年": ("year", 0),
    "先週": ("week", -1),
    "今週": ("week", 0),
    "先月": ("month", -1),
    "今月": ("month", 0),
    "지난주": ("week", -1),
    "지난달": ("month", -1),
    "작년": ("year", -1),
}
"""Words for a calendar period → its unit and how many of them from the current one."""

UNITS: dict[str, str] = {
    **dict.fromkeys(("day", "days", "tag", "tagen", "jour", "jours", "día", "días", "天", "日"), "day"),
    **dict.fromkeys(("week", "weeks", "woche", "wochen", "semaine", "semaines", "semana", "semanas"), "week"),
    **dict.fromkeys(("周", "週間", "星期"), "week"),
    **dict.fromkeys(("month", "months", "monat", "monaten", "mois", "mes", "meses"), "month"),
    **dict.fromkeys(("月", "ヶ月", "か月"), "month"),
    **dict.fromkeys(("year", "years", "jahr", "jahren", "an", "ans", "año", "años", "年"), "year"),
}
"""A unit as written → `day`, `week`, `month` or `year`."""
