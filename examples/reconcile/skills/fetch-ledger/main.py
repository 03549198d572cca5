import datetime

import himalia


def last_month():
    return f"{datetime.date.today().replace(day=1) - datetime.timedelta(1):%Y-%m}"


async def main(month=None):
    month = month or last_month()
    found = await himalia.call("ledger.list_entries", month=month)
    print(f"{len(found['entries'])} entries")
    return {"month": month, "amounts": found["entries"]}
