"""Orders, parcels, refunds and shipping: nested results, nested and listed arguments."""

from collections.abc import Callable
from typing import Literal

from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

from bench.tools.data import (
    Row,
    bad_date,
    find_city,
    find_row,
    fold,
    load_table,
    make_error,
    out_of_range,
    read_date,
    report_unknown,
    tidy,
    unknown_city,
)

OrderStatus = Literal["pending", "processing", "shipped", "delivered", "returned", "cancelled"]


class OrderFilter(TypedDict, total=False):
    """Which orders to list; every condition that is given must hold."""

    status: OrderStatus
    customer: str
    placed_after: str
    min_total: float


class RefundItem(TypedDict):
    """How many pieces of which product go back."""

    sku: str
    quantity: int


class Parcel(TypedDict):
    """Weight and size of a parcel."""

    weight_kg: float
    size_cm: list[float]


def get_order(order_id: str) -> Row:
    """Get one order by its number: status, customer, items with prices, total, tracking number.

    Use it when an order number is given. Not to search for orders (list_orders), nor for where the
    parcel is now (track_parcel).

    Args:
        order_id: Order number, such as A1001.
    """
    order = _find_order(order_id)
    return order or _unknown_order(order_id)


def _find_order(order_id: str) -> Row | None:
    return find_row(load_table("orders.json"), order_id.lstrip("#"), "order_id")


def _unknown_order(order_id: str) -> Row:
    return report_unknown(
        "order", order_id, [order["order_id"] for order in load_table("orders.json")]
    )


def list_orders(
    filter: OrderFilter | None = None,  # noqa: A002 - a parameter's name is what a model reads
    sort_by: Literal["placed", "total"] = "placed",
    descending: bool = True,
    limit: int = 5,
) -> Row:
    """List orders that meet conditions: number, date, customer, status and total.

    Use it to find or count orders by customer, status, date or amount. Not for the items of one
    order (get_order). The count tells all that match, also beyond the limit.

    Args:
        filter: Conditions; leave out for all orders.
        filter.status: State of the order.
        filter.customer: Customer's name.
        filter.placed_after: Only orders placed after this day, as YYYY-MM-DD.
        filter.min_total: Only orders of at least this amount in yuan.
        sort_by: What to sort by.
        descending: Largest or newest first.
        limit: How many to list, 1 to 20.
    """
    wanted = filter or {}
    if not 1 <= limit <= 20:
        return out_of_range("limit", limit, 1, 20)
    after = wanted.get("placed_after")
    if after is not None and read_date(after) is None:
        return bad_date(after)
    orders = [order for order in load_table("orders.json") if _meets(order, wanted)]
    orders.sort(key=lambda order: (order[sort_by], order["order_id"]), reverse=descending)
    return {
        "count": len(orders),
        "orders": [_shorten(order) for order in orders[:limit]],
    }


def _meets(order: Row, wanted: OrderFilter) -> bool:
    names = {fold(order["customer"][key]) for key in ("name", "name_zh")}
    tests: dict[str, Callable[[], bool]] = {
        "status": lambda: order["status"] == wanted["status"],
        "customer": lambda: fold(wanted["customer"]) in names,
        "placed_after": lambda: order["placed"] > wanted["placed_after"],
        "min_total": lambda: order["total"] >= wanted["min_total"],
    }
    return all(tests[key]() for key in wanted)


def _shorten(order: Row) -> Row:
    customer = order["customer"]
    return {
        "order_id": order["order_id"],
        "placed": order["placed"],
        "customer": customer["name"],
        "customer_zh": customer["name_zh"],
        "status": order["status"],
        "total": order["total"],
    }


def track_parcel(tracking_number: str) -> Row:
    """Track a parcel by its tracking number: where it is, its history, when it should arrive.

    Use it for where a delivery is. Needs a tracking number, which get_order gives for a shipped
    order; an order number will not do.

    Args:
        tracking_number: Two letters and eight digits, such as SG70014471.
    """
    number = tracking_number.replace(" ", "")
    parcel = find_row(load_table("parcels.json"), number, "tracking_number")
    if parcel:
        return parcel
    if _find_order(number):
        return make_error(
            f"{number[:40]} is an order number, not a tracking number",
            hint="get_order returns the tracking number",
        )
    return report_unknown(
        "tracking_number",
        tracking_number,
        [p["tracking_number"] for p in load_table("parcels.json")],
    )


def quote_refund(
    order_id: str,
    items: list[RefundItem],
    reason: Literal["damaged", "wrong_item", "changed_mind"],
    to_balance: bool = False,
) -> Row:
    """Work out how much money comes back if items of an order are returned.

    Use it before a return. It only quotes: nothing is returned or paid, and it cannot cancel an
    order. Changed mind costs 10 percent; credit to the shop balance adds 5 percent.

    Args:
        order_id: Order number, such as A1001.
        items: Products to give back.
        items.sku: Product code, such as KB-10.
        items.quantity: Number of pieces, at least 1.
        reason: Why they go back.
        to_balance: Whether to credit the shop balance instead of the original payment.
    """
    order = _find_order(order_id)
    if order is None:
        return _unknown_order(order_id)
    if order["status"] not in {"shipped", "delivered"}:
        return make_error(f"order {order['order_id']} is {order['status']}: nothing to return")
    if not items:
        return make_error("items is empty", example=[{"sku": "KB-10", "quantity": 1}])
    bought = {fold(item["sku"]): item for item in order["items"]}
    for item in items:
        line = bought.get(fold(item["sku"]))
        if line is None:
            return report_unknown("sku", item["sku"], [line["sku"] for line in order["items"]])
        if not 1 <= item["quantity"] <= line["quantity"]:
            return out_of_range("quantity", item["quantity"], 1, line["quantity"])
    value = sum(bought[fold(item["sku"])]["unit_price"] * item["quantity"] for item in items)
    fee = round(value * 0.1, 2) if reason == "changed_mind" else 0
    bonus = round((value - fee) * 0.05, 2) if to_balance else 0
    return {
        "order_id": order["order_id"],
        "value": value,
        "fee": tidy(fee),
        "bonus": tidy(bonus),
        "refund": tidy(round(value - fee + bonus, 2)),
        "currency": "CNY",
    }


def quote_shipping(
    parcel: Parcel,
    destination: str,
    express: bool = False,
    insured_value: float | None = None,
) -> Row:
    """Work out what it costs to send a parcel from Shenzhen, and how many days it takes.

    Use it before sending. Not for parcels already on the way (track_parcel). Up to 30 kg.

    Args:
        parcel: The parcel.
        parcel.weight_kg: Weight in kilograms, up to 30.
        parcel.size_cm: Length, width and height in centimetres, such as [40, 30, 20].
        destination: City name in English or Chinese.
        express: Whether to send it by express.
        insured_value: Value to insure in yuan; leave out for no insurance.
    """
    city = find_city(destination)
    if city is None:
        return unknown_city(destination)
    weight, size = parcel["weight_kg"], parcel["size_cm"]
    if not 0 < weight <= 30:
        return out_of_range("weight_kg", weight, 0.01, 30)
    if len(size) != 3 or not all(0 < side <= 200 for side in size):
        return make_error("size_cm needs three numbers from 1 to 200", example=[40, 30, 20])
    if insured_value is not None and not 0 < insured_value <= 50000:
        return out_of_range("insured_value", insured_value, 1, 50000)
    return _price_shipping(city, weight, size, express, insured_value or 0)


def _price_shipping(
    city: Row, weight: float, size: list[float], express: bool, insured: float
) -> Row:
    home = city["country"] == "China"
    # carriers charge bulky parcels by volume: 6,000 cm3 count as a kilogram
    charged = max(weight, size[0] * size[1] * size[2] / 6000)
    base = (12 + 4 * charged) if home else (90 + 45 * charged)
    price = base * (1.5 if express else 1)
    insurance = insured * 0.01
    days = (2 if express else 4) if home else (5 if express else 12)
    return {
        "destination": city["name"],
        "charged_kg": tidy(round(charged, 2)),
        "shipping": tidy(round(price, 2)),
        "insurance": tidy(round(insurance, 2)),
        "total": tidy(round(price + insurance, 2)),
        "currency": "CNY",
        "days": days,
    }
