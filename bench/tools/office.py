"""Calendar, contacts, messages and the document base. Two of these change something."""

import math
from collections import Counter
from datetime import timedelta
from functools import cache
from typing import Literal

from bench.tools.data import (
    TODAY,
    Row,
    bad_date,
    find_row,
    fold,
    is_chinese,
    load_table,
    make_error,
    out_of_range,
    read_date,
    report_unknown,
)
from bench.tools.schema import needs_leave

_DAY_STARTS, _DAY_ENDS = 9 * 60, 18 * 60


def list_events(date: str, days: int = 1, attendee: str | None = None) -> Row:
    """List the calendar's events of one or more days, with times, people and rooms.

    Use it to see what is planned. Not to find a time when people are free (find_free_slots) or to
    add an event (create_event).

    Args:
        date: First day, as YYYY-MM-DD.
        days: How many days from there, 1 to 14.
        attendee: Only events with this person, by name.
    """
    first = read_date(date)
    if first is None:
        return bad_date(date)
    if not 1 <= days <= 14:
        return out_of_range("days", days, 1, 14)
    person = _find_person(attendee) if attendee else None
    if attendee and person is None:
        return _unknown_person(attendee)
    last = (first + timedelta(days=days - 1)).isoformat()
    events = [
        event
        for event in load_table("events.json")
        if first.isoformat() <= event["date"] <= last
        and (person is None or person["name"] in event["attendees"])
    ]
    return {"from": first.isoformat(), "to": last, "count": len(events), "events": events}


def _find_person(name: str) -> Row | None:
    return find_row(load_table("contacts.json"), name, "name", "name_zh", "email")


def _unknown_person(name: str) -> Row:
    key = "name_zh" if is_chinese(name) else "name"
    names = list(dict.fromkeys(person[key] for person in load_table("contacts.json")))
    return report_unknown("person", name, names)


def find_free_slots(attendees: list[str], date: str, duration: int = 30) -> Row:
    """Find the times of a day when all the given people are free, between 09:00 and 18:00.

    Use it to plan a meeting. Not to see what is in the calendar (list_events); it books nothing.

    Args:
        attendees: Names of the people, such as ["Sun Na", "Chen Jie"].
        date: Day, as YYYY-MM-DD.
        duration: Minutes needed, 15 to 480.
    """
    if read_date(date) is None:
        return bad_date(date)
    if not 15 <= duration <= 480:
        return out_of_range("duration", duration, 15, 480)
    people = [_find_person(name) for name in attendees]
    for name, person in zip(attendees, people, strict=True):
        if person is None:
            return _unknown_person(name)
    names = {person["name"] for person in people if person}
    if not names:
        return make_error("attendees is empty", example=["Sun Na"])
    slots = [slot for slot in _list_gaps(names, date) if slot[1] - slot[0] >= duration]
    free = [{"from": _show_minutes(start), "to": _show_minutes(end)} for start, end in slots]
    return {"date": date, "attendees": sorted(names), "free": free}


def _list_gaps(names: set[str], date: str) -> list[tuple[int, int]]:
    """Return the free spans of a working day, in minutes from midnight."""
    busy = sorted(
        (_read_minutes(event["start"]), _read_minutes(event["end"]))
        for event in load_table("events.json")
        if event["date"] == date and names & set(event["attendees"])
    )
    gaps, free_from = [], _DAY_STARTS
    for start, end in [*busy, (_DAY_ENDS, _DAY_ENDS)]:
        if start > free_from:
            gaps.append((free_from, start))
        free_from = max(free_from, end)
    return gaps


def _read_minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


def _show_minutes(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


@needs_leave
def create_event(
    title: str,
    date: str,
    start: str,
    duration: int = 30,
    attendees: list[str] | None = None,
    online: bool = False,
) -> Row:
    """Put a new event into the calendar. This changes the calendar.

    Use it only when asked to add, book or schedule something. Not to look at the calendar
    (list_events) or to find a free time (find_free_slots). Cannot change or delete events.

    Args:
        title: Title of the event.
        date: Day, as YYYY-MM-DD, today or later.
        start: Start time, as HH:MM in 24 hours.
        duration: Minutes, 15 to 480.
        attendees: Names of the people to invite.
        online: Whether it is an online meeting.
    """
    day, clock = read_date(date), _read_clock(start)
    if day is None:
        return bad_date(date)
    if day < TODAY:
        return make_error(f"date is in the past: {date}", today=TODAY.isoformat())
    if clock is None:
        return make_error(f"not a time: {start[:20]}", expected="HH:MM")
    if not 15 <= duration <= 480:
        return out_of_range("duration", duration, 15, 480)
    for name in attendees or ():
        if _find_person(name) is None:
            return _unknown_person(name)
    event = {
        "title": title,
        "date": date,
        "start": _show_minutes(clock),
        "end": _show_minutes((clock + duration) % (24 * 60)),
        "attendees": list(attendees or ()),
        "location": "Online" if online else None,
    }
    return {"created": True, "event": event}


def _read_clock(text: str) -> int | None:
    hours, colon, minutes = text.strip().partition(":")
    if not (colon and hours.isdecimal() and minutes.isdecimal() and len(minutes) == 2):
        return None
    clock = _read_minutes(f"{hours[:3]}:{minutes}")
    return clock if int(minutes) < 60 and clock < 24 * 60 else None


def find_contact(name: str, department: str | None = None) -> Row:
    """Look up colleagues by name: e-mail, phone extension, department, job title, office.

    Use it for addresses and extensions. Not for customers, calendars or sending anything. Several
    people may share a name.

    Args:
        name: Full name or a part of it, in English or Chinese.
        department: Only people of this department, such as Finance or Sales.
    """
    asked, people = fold(name), load_table("contacts.json")
    departments = sorted({person["department"] for person in people})
    if department and fold(department) not in {fold(known) for known in departments}:
        return report_unknown("department", department, departments)
    found = [
        person
        for person in people
        if asked
        and (asked in fold(person["name"]) or asked in person["name_zh"])
        and (not department or fold(department) == fold(person["department"]))
    ]
    return {"count": len(found), "people": found} if found else _unknown_person(name)


@needs_leave
def send_message(
    to: list[str],
    text: str,
    channel: Literal["email", "chat", "sms"] = "email",
    urgent: bool = False,
) -> Row:
    """Send a message to colleagues. This really sends it and cannot be taken back.

    Use it only when asked to send, write to or tell somebody. Not to look up an address
    (find_contact) or to invite to a meeting (create_event).

    Args:
        to: Names or e-mail addresses of the receivers.
        text: Text of the message, exactly as it should arrive.
        channel: Way to send it.
        urgent: Whether to mark it as urgent.
    """
    if not to:
        return make_error("to is empty", example=["Sun Na"])
    if not 1 <= len(text) <= 2000:
        return out_of_range("length of text", len(text), 1, 2000)
    people = [_find_person(name) for name in to]
    for name, person in zip(to, people, strict=True):
        if person is None:
            return _unknown_person(name)
    receivers = [person["email"] for person in people if person]
    return {"sent": True, "to": receivers, "channel": channel, "urgent": urgent, "text": text}


# ---------------------------------------------------------------- documents

_CATEGORIES = ("travel", "product", "hr", "it", "office", "finance")


def search_documents(
    query: str,
    category: Literal["travel", "product", "hr", "it", "office", "finance"] | None = None,
    year: int | None = None,
    limit: int = 3,
) -> Row:
    """Search the company's own documents: travel and leave rules, products, IT, offices, budgets.

    Use it for rules and facts of the company. Several documents look alike: check year, model or
    place in the title. Not for the web, the weather, orders, people or the calendar.

    Args:
        query: Key words in English or Chinese.
        category: Only documents of this category.
        year: Only documents of this year, such as 2025.
        limit: How many documents at most, 1 to 10.
    """
    if not 1 <= limit <= 10:
        return out_of_range("limit", limit, 1, 10)
    chosen = [
        (row, words)
        for row, words in _index_documents()
        if category in {None, row["category"]} and year in {None, row["year"]}
    ]
    asked = set(_split_words(query[:500]))
    weights = _weigh_words()
    scored = [
        (sum(weights.get(word, 0) * words[word] for word in asked), row) for row, words in chosen
    ]
    hits = sorted((item for item in scored if item[0] > 0), key=lambda x: (-x[0], x[1]["id"]))
    end = "_zh" if is_chinese(query) else ""
    return {
        "count": len(hits),
        "documents": [_show_document(row, end) for _, row in hits[:limit]],
    }


def _show_document(row: Row, end: str) -> Row:
    plain = {key: row[key] for key in ("id", "category", "year")}
    return {**plain, "title": row[f"title{end}"], "text": row[f"text{end}"]}


@cache
def _index_documents() -> list[tuple[Row, Counter[str]]]:
    """Return each document with its words; those of the title count three times."""
    index = []
    for row in load_table("documents.jsonl"):
        title = set(_split_words(f"{row['title']} {row['title_zh']} {row['year']}"))
        words = Counter(set(_split_words(f"{row['text']} {row['text_zh']}")))
        index.append((row, words + Counter(dict.fromkeys(title, 3))))
    return index


@cache
def _weigh_words() -> dict[str, float]:
    """Return for each word how much it tells: rare ones more."""
    index = _index_documents()
    seen = Counter(word for _, words in index for word in words)
    return {word: math.log(1 + len(index) / count) for word, count in seen.items()}


def _split_words(text: str) -> list[str]:
    """Return Latin words without a plural s, and pairs of Chinese characters."""
    kept = "".join(char if char.isalnum() or char == "." else " " for char in fold(text))
    words = []
    for word in _part_scripts(kept).split():
        if is_chinese(word):
            words += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif bare := word.strip("."):
            words.append(bare.removesuffix("s") if len(bare) > 3 else bare)
    return words


def _part_scripts(text: str) -> str:
    """Return the text with a space wherever Chinese and other characters meet."""
    parts = []
    for before, char in zip(f" {text}", text, strict=False):
        parts.append(f" {char}" if is_chinese(before) != is_chinese(char) else char)
    return "".join(parts)
