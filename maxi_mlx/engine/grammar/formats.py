"""The formats of JSON Schema, for strings that are written without quotes: within JSON llguidance
knows them. Each as a regular expression, and one short text that it matches.
"""

from __future__ import annotations

_DAYS = {
    "(?:0[13578]|1[02])": "(?:0[1-9]|[12][0-9]|3[01])",
    "(?:0[469]|11)": "(?:0[1-9]|[12][0-9]|30)",
    "02": "(?:0[1-9]|1[0-9]|2[0-8])",
}
_DATE = f"[0-9]{{4}}-(?:{'|'.join(f'{month}-{days}' for month, days in _DAYS.items())})"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_CLOCK}:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-]{_CLOCK})"
_HOURS = r"(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_LONG = r"(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HEX = "[0-9A-Fa-f]"
_GROUP = f"{_HEX}{{1,4}}"
_IPV6 = "|".join(
    [
        f"(?:{_GROUP}:){{7}}{_GROUP}",
        *(f"(?:{_GROUP}:){{1,{7 - i}}}(?::{_GROUP}){{1,{i}}}" for i in range(1, 7)),
        f"(?:{_GROUP}:){{1,7}}:",
        f":(?::{_GROUP}){{1,7}}",
        "::",
    ]
)
_URI_CHARACTER = r"(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"

PATTERNS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": rf"P(?:[0-9]+W|{_LONG}(?:T{_HOURS})?|T{_HOURS})",
    "email": rf"{_ATOM}(?:\.{_ATOM})*@{_HOST}",
    "hostname": _HOST,
    "ipv4": rf"{_BYTE}(?:\.{_BYTE}){{3}}",
    "ipv6": _IPV6,
    "uuid": f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",
    "uri": f"[A-Za-z][A-Za-z0-9+.-]*:{_URI_CHARACTER}+",
}
EXAMPLES = {
    "date": "2000-01-01",
    "time": "00:00:00Z",
    "date-time": "2000-01-01T00:00:00Z",
    "duration": "P1D",
    "email": "a@b.co",
    "hostname": "a",
    "ipv4": "0.0.0.0",
    "ipv6": "::",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uri": "a:b",
}
