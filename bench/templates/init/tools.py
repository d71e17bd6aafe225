"""Tools of your own: plain functions with types and a docstring, sync or async.

A model sees the name, the types, the docstring and the line of each parameter, nothing else. Give
back what JSON can hold; an error is a dict with "error" and what helps to ask again. Calls may run
at the same time in several threads, and each has a time limit (tool-timeout in bench.toml).
"""

CHANGES = ["book_table"]
"""The functions that change something: they run only with leave (--allow NAME, or you are asked)."""

_TABLES = {"Noodle House": {"price": 8.5, "free": 4}, "Blue Door": {"price": 24.0, "free": 0}}


def find_restaurant(cuisine: str, most: int = 5) -> dict[str, object]:
    """List the restaurants of a cuisine in this town.

    Use it when the user asks where to eat. Not for prices (get_price). This town only.

    Args:
        cuisine: What is cooked there, one word, such as chinese or french.
        most: How many restaurants to list, 1 to 20.
    """
    known = {"chinese": ["Noodle House"], "french": ["Blue Door"]}
    if cuisine.lower() not in known:
        return {"error": f"no {cuisine[:40]} restaurant here", "known_cuisines": list(known)}
    return {"restaurants": known[cuisine.lower()][:most]}


async def get_price(restaurant: str) -> dict[str, object]:
    """Get what a dinner costs at a restaurant, in euros for one person.

    Use it when the user asks for a price. Not for free tables. Restaurants of this town only.

    Args:
        restaurant: The restaurant's name, such as Noodle House.
    """
    if restaurant not in _TABLES:
        return {"error": f"unknown restaurant: {restaurant[:40]}", "known": list(_TABLES)}
    return {"restaurant": restaurant, "euros": _TABLES[restaurant]["price"]}


def book_table(restaurant: str, people: int) -> dict[str, object]:
    """Book a table at a restaurant for tonight.

    Use it only when the user asks to book. Not to see whether a table is free. Tonight only.

    Args:
        restaurant: The restaurant's name, such as Noodle House.
        people: How many people come, 1 to 8.
    """
    if restaurant not in _TABLES:
        return {"error": f"unknown restaurant: {restaurant[:40]}", "known": list(_TABLES)}
    return {"booked": restaurant, "people": people}
