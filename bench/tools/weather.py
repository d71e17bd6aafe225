"""Weather, forecast, air quality and time: three look-alikes and a tool without arguments."""

from datetime import timedelta, timezone
from typing import Literal

from bench.tools.data import (
    NOW,
    Row,
    day_after,
    find_city,
    load_table,
    match_names,
    out_of_range,
    report_unknown,
    unknown_city,
)

_AQI_LEVELS = ((50, "good", "优"), (100, "moderate", "良"), (150, "unhealthy", "轻度污染"))
_WORST_AQI = ("very unhealthy", "中度污染")


def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> Row:
    """Get the weather in a city right now: condition, temperature, humidity and wind.

    Use it for the present only. Not for coming days (get_forecast), past days or air pollution
    (get_air_quality). Knows about 20 large cities.

    Args:
        city: City name in English or Chinese, such as Beijing or 北京.
        unit: Unit of the temperature.
    """
    row = find_city(city)
    if row is None:
        return unknown_city(city)
    now = row["now"]
    return {
        "city": row["name"],
        "city_zh": row["name_zh"],
        **now,
        "temperature": _convert(now["temperature"], unit),
        "unit": "°C" if unit == "celsius" else "°F",
        "humidity": f"{now['humidity']}%",
        "wind": f"{now['wind']} km/h",
    }


def _convert(celsius: float, unit: str) -> float:
    return celsius if unit == "celsius" else round(celsius * 9 / 5 + 32, 1)


def get_forecast(city: str, days: int = 3) -> Row:
    """Get the weather forecast of a city for the coming days, beginning tomorrow.

    Use it for tomorrow or later this week: condition, lowest and highest temperature in °C, chance
    of rain. Not for the weather right now (get_weather) or for past days. Reaches 7 days ahead.

    Args:
        city: City name in English or Chinese, such as Beijing or 北京.
        days: How many days, 1 to 7; 1 is tomorrow only.
    """
    row = find_city(city)
    if row is None:
        return unknown_city(city)
    if not 1 <= days <= 7:
        return out_of_range("days", days, 1, 7)
    coming = [{"date": day_after(i + 1), **day} for i, day in enumerate(row["forecast"][:days])]
    return {"city": row["name"], "city_zh": row["name_zh"], "days": coming}


def get_air_quality(city: str) -> Row:
    """Get the air quality of a city right now: index (AQI), level, PM2.5, PM10, main pollutant.

    Use it for pollution, smog or whether to wear a mask. Not for temperature or rain, and not for
    a forecast of the air.

    Args:
        city: City name in English or Chinese, such as Beijing or 北京.
    """
    row = find_city(city)
    if row is None:
        return unknown_city(city)
    aqi = row["air"]["aqi"]
    level = next(((en, zh) for top, en, zh in _AQI_LEVELS if aqi <= top), _WORST_AQI)
    return {
        "city": row["name"],
        "city_zh": row["name_zh"],
        **row["air"],
        "level": level[0],
        "level_zh": level[1],
    }


def get_time(zone: str | None = None) -> Row:
    """Get the current date, weekday and time, here or in another place.

    Use it whenever the answer depends on today's date or the time. Without a zone it tells the
    local time (Asia/Shanghai). Not for opening hours or calendars.

    Args:
        zone: IANA zone such as Europe/Paris, or a city name; leave out for the local time.
    """
    zones = load_table("zones.json")
    city = find_city(zone) if zone else None
    name = city["zone"] if city else match_exactly(zone or "Asia/Shanghai")
    if name is None:
        return report_unknown("zone", zone or "", zones)
    there = NOW.astimezone(timezone(timedelta(minutes=zones[name])))
    return {
        "zone": name,
        "date": there.date().isoformat(),
        "weekday": there.strftime("%A"),
        "time": there.strftime("%H:%M"),
        "utc_offset": there.isoformat()[-6:],
    }


def match_exactly(zone: str) -> str | None:
    """Return the zone's name as the table writes it, or None."""
    near = match_names(zone, load_table("zones.json"))
    return near[0] if near and near[0].casefold() == zone.strip().casefold() else None
