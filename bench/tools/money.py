"""Exchange rates, banks, loans, arithmetic and units. The calculator walks a syntax tree."""

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Literal

from bench.tools.data import (
    TODAY,
    Row,
    find_city,
    find_row,
    load_table,
    make_error,
    out_of_range,
    report_unknown,
    tidy,
    unknown_city,
)


def get_exchange_rate(currency: str, amount: float = 1) -> Row:
    """Get today's exchange rate of a foreign currency to Chinese yuan (CNY), and convert an amount.

    Use it for what USD, EUR or JPY are worth in yuan now. Not for past rates or trends
    (get_rate_history), forecasts, or other currencies.

    Args:
        currency: Currency code: USD, EUR or JPY.
        amount: Amount in that currency to convert to yuan.
    """
    row = _find_currency(currency)
    if row is None:
        return _unknown_currency(currency)
    if not 0 < amount <= 1e12:
        return out_of_range("amount", amount, 0.01, 1e12)
    return {
        "currency": row["code"],
        "rate": row["rate"],
        "amount": tidy(amount),
        "cny": tidy(amount * row["rate"]),
        "date": TODAY.isoformat(),
    }


def _find_currency(asked: str) -> Row | None:
    rows = [{"code": code, **row} for code, row in load_table("rates.json").items()]
    return find_row(rows, asked, "code", "name", "name_zh")


def _unknown_currency(asked: str) -> Row:
    return make_error(
        f"unsupported currency: {asked[:40]}", supported_currencies=list(load_table("rates.json"))
    )


def get_rate_history(currency: str, months: int = 12) -> Row:
    """Get the monthly average exchange rates to Chinese yuan of the past 12 months.

    Use it for trends, comparisons with earlier months, highs and lows. Not for today's conversion
    (get_exchange_rate) or the future. USD, EUR and JPY only.

    Args:
        currency: Currency code: USD, EUR or JPY.
        months: How many months back from this month, 1 to 12.
    """
    row = _find_currency(currency)
    if row is None:
        return _unknown_currency(currency)
    if not 1 <= months <= 12:
        return out_of_range("months", months, 1, 12)
    history = dict(list(row["history"].items())[-months:])
    return {
        "currency": row["code"],
        "history": history,
        "highest": max(history.values()),
        "lowest": min(history.values()),
    }


def find_exchange_banks(
    city: str, currency: str | None = None, open_saturday: bool | None = None
) -> Row:
    """Find bank branches in a Chinese city that exchange foreign cash, with addresses.

    Use it for where to change money. Not for what the money is worth (get_exchange_rate). Covers
    eight cities in mainland China.

    Args:
        city: City name in English or Chinese, such as Hangzhou or 杭州.
        currency: Only branches that take this currency: USD, EUR or JPY.
        open_saturday: true for only branches open on Saturday, false for only the others.
    """
    banks = load_table("banks.json")
    served = {bank["city"]: find_city(bank["city"]) for bank in banks}
    row = find_city(city)
    if row is None or row["name"] not in served:
        return unknown_city(city, [known for known in served.values() if known])
    wanted = _find_currency(currency) if currency else None
    if currency and wanted is None:
        return _unknown_currency(currency)
    found = [
        {key: value for key, value in bank.items() if key != "city"}
        for bank in banks
        if bank["city"] == row["name"]
        and (wanted is None or wanted["code"] in bank["currencies"])
        and open_saturday in {None, bank["open_saturday"]}
    ]
    return {"city": row["name"], "city_zh": row["name_zh"], "count": len(found), "branches": found}


def get_loan_payment(
    amount: float,
    annual_rate: float,
    months: int,
    method: Literal["equal_payment", "equal_principal"] = "equal_payment",
) -> Row:
    """Work out the monthly payment and total interest of a loan from its terms.

    Use it for mortgages and instalments. Not for savings, exchange rates or plain arithmetic. It
    knows no bank's current offers: amount, rate and term must be given.

    Args:
        amount: Amount borrowed in yuan.
        annual_rate: Interest a year in percent, such as 3.6; 0 to 36.
        months: Term in months, 1 to 480.
        method: Same payment each month, or same principal each month with falling payments.
    """
    for name, value, low, high in (
        ("amount", amount, 1, 1e9),
        ("annual_rate", annual_rate, 0, 36),
        ("months", months, 1, 480),
    ):
        if not low <= value <= high:
            return out_of_range(name, value, low, high)
    payments = list(_list_payments(amount, annual_rate / 1200, months, method))
    return {
        "method": method,
        "first_payment": tidy(round(payments[0], 2)),
        "last_payment": tidy(round(payments[-1], 2)),
        "total_interest": tidy(round(sum(payments) - amount, 2)),
    }


def _list_payments(amount: float, monthly: float, months: int, method: str) -> list[float]:
    if method == "equal_principal":
        part = amount / months
        return [part + (amount - part * i) * monthly for i in range(months)]
    growth = (1 + monthly) ** months
    payment = amount / months if monthly == 0 else amount * monthly * growth / (growth - 1)
    return [payment] * months


# ---------------------------------------------------------------- arithmetic

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "log": math.log,
    "max": max,
    "min": min,
    "round": round,
    "sqrt": math.sqrt,
}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_SIGNS = str.maketrans("×÷−（），", "*/-(),")
_LARGEST = 1e100
_PLAIN = re.compile(r"[\w\s+\-*/%().,]+", re.ASCII)
_GLUED = re.compile(r"\d(?![eE][+-]?\d)[A-Za-z_]")


class _NotArithmeticError(ValueError):
    """The expression asks for what the calculator does not do."""


def calculate(expression: str) -> Row:
    """Work out an arithmetic expression exactly.

    Use it for sums, percentages, powers and roots with known numbers. It knows + - * / // % **,
    parentheses, abs, ceil, floor, log, max, min, round, sqrt, pi, e. No variables, units, currencies
    or dates.

    Args:
        expression: Expression in plain notation, such as (3 + 4) * 2.5; no thousands separators.
    """
    text = expression.translate(_SIGNS).replace("^", "**").strip()
    if len(text) > 300:
        return make_error("expression too long", maximum_characters=300)
    # Python's tokenizer warns of a number glued to a word, and strings have no place here
    if not _PLAIN.fullmatch(text) or _GLUED.search(text):
        return _not_arithmetic(expression)
    try:
        value = _work_out(ast.parse(text, mode="eval").body)
    except ZeroDivisionError:
        return make_error("division by zero", expression=expression)
    except ValueError as problem:
        return make_error(f"cannot calculate: {problem}", functions=sorted(_FUNCTIONS))
    except (SyntaxError, TypeError, OverflowError, RecursionError, MemoryError):
        return _not_arithmetic(expression)
    return {"expression": expression, "result": tidy(value)}


def _not_arithmetic(expression: str) -> Row:
    return make_error(
        "not an arithmetic expression", expression=expression[:300], example="(3 + 4) * 2.5"
    )


def _work_out(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bound(value)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_work_out(inner)
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _work_out(inner)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _raise(_work_out(left), _work_out(right))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _bound(_BINARY[type(sign)](_work_out(left), _work_out(right)))
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _bound(_FUNCTIONS[name](*(_work_out(arg) for arg in args)))
    raise _NotArithmeticError(_name_node(node))


def _name_node(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            return f"unknown name {name[:40]}"
    return f"{type(node).__name__} is not arithmetic"


def _raise(base: float, power: float) -> float:
    """Return the power, refused before it grows: exact integers have no upper bound."""
    if base != 0 and power * math.log10(abs(base)) > 100:
        raise _NotArithmeticError("the result is too large")
    value = base**power
    if isinstance(value, complex):
        raise _NotArithmeticError("no real root")
    return _bound(value)


def _bound(value: float) -> float:
    if not -_LARGEST <= value <= _LARGEST:
        raise _NotArithmeticError("the result is too large")
    return value


# ---------------------------------------------------------------- units

_UNITS: dict[str, dict[str, float]] = {
    "length": {"mm": 0.001, "cm": 0.01, "m": 1, "km": 1000, "in": 0.0254, "ft": 0.3048}
    | {"yd": 0.9144, "mi": 1609.344, "li": 500},
    "mass": {"g": 0.001, "kg": 1, "t": 1000, "oz": 0.028349523125, "lb": 0.45359237, "jin": 0.5},
    "volume": {"ml": 0.001, "l": 1, "gal": 3.785411784, "cup": 0.2365882365},
    "area": {"m2": 1, "km2": 1e6, "ha": 1e4, "acre": 4046.8564224, "mu": 10000 / 15},
    "speed": {"m/s": 1, "km/h": 1 / 3.6, "mph": 0.44704, "kn": 1852 / 3600},
    "data": {"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "temperature": {"C": 1, "F": 1, "K": 1},
}
_TO_KELVIN: dict[str, tuple[float, float]] = {"C": (1, 273.15), "F": (5 / 9, 459.67), "K": (1, 0)}


def convert_units(value: float, from_unit: str, to_unit: str) -> Row:
    """Convert a value between units of length, mass, volume, area, speed, data or temperature.

    Use it for miles and kilometres, pounds and kilograms, °F and °C and the like. Not for
    currencies (get_exchange_rate) or time zones (get_time).

    Args:
        value: Number to convert.
        from_unit: Unit symbol, such as km, mi, lb, kg, gal, l, acre, mph, GB, C or F.
        to_unit: Unit symbol of the same kind.
    """
    source, target = _find_unit(from_unit), _find_unit(to_unit)
    if source is None or target is None:
        asked = from_unit if source is None else to_unit
        return report_unknown("unit", asked, [unit for kind in _UNITS.values() for unit in kind])
    if source[0] != target[0]:
        return make_error(
            f"cannot convert {source[0]} to {target[0]}", units_of_same_kind=list(_UNITS[source[0]])
        )
    result = _convert(value, *source, target[1])
    return {"value": tidy(value), "from": source[1], "to": target[1], "result": tidy(result)}


def _find_unit(asked: str) -> tuple[str, str] | None:
    symbol = asked.strip().removeprefix("°").replace("²", "2")
    pairs = [(kind, unit) for kind, units in _UNITS.items() for unit in units]
    exact = [pair for pair in pairs if pair[1] == symbol]
    loose = [pair for pair in pairs if pair[1].casefold() == symbol.casefold()]
    return next(iter(exact or loose), None)


def _convert(value: float, kind: str, source: str, target: str) -> float:
    if kind != "temperature":
        return value * _UNITS[kind][source] / _UNITS[kind][target]
    scale, shift = _TO_KELVIN[source]
    back, zero = _TO_KELVIN[target]
    return (value + shift) * scale / back - zero
