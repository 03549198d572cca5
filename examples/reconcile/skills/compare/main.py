def main(charges, entries):
    found = []
    for charge in sorted({*charges, *entries}):
        charged, booked = charges.get(charge), entries.get(charge)
        if charged != booked:
            kind = "missing" if booked is None else "unexpected" if charged is None else "different"
            found.append({"charge": charge, "kind": kind, "charged": charged, "booked": booked})
    return {"charged": sum(charges.values()), "booked": sum(entries.values()), "differences": found}
