import datetime

import himalia


def last_month():
    return f"{datetime.date.today().replace(day=1) - datetime.timedelta(1):%Y-%m}"


async def main(month=None):
    month = month or last_month()
    amounts, page, more = {}, 0, True
    while more:
        found = await himalia.call("payments.list_charges", month=month, page=page)
        amounts.update((one["id"], one["cents"]) for one in found["charges"])
        page, more = page + 1, found["more"]
    print(f"{len(amounts)} charges on {page} pages")
    return {"month": month, "amounts": amounts}
