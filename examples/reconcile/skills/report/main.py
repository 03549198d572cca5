import os

import himalia
import matplotlib.pyplot as plt
import pandas as pd


async def main(month, charged, booked, differences):
    table = pd.DataFrame(differences, columns=["charge", "kind", "charged", "booked"]).fillna(0)
    table["euros"] = (table["booked"] - table["charged"]) / 100
    by_kind = table.groupby("kind")["euros"].agg(["count", "sum"]).round(2)

    figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    for kind, rows in table.groupby("kind"):
        axes.bar(rows.index, rows["euros"], label=f"{kind} ({len(rows)})")
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set(title=f"Ledger against charges, {month}", ylabel="difference, EUR", xlabel="charge")
    axes.legend()
    os.makedirs("/tmp/artifacts", exist_ok=True)
    figure.savefig("/tmp/artifacts/differences.png", dpi=110)
    plt.show()
    print(by_kind.to_string())

    text = f"{month}: charged {charged / 100:,.2f} EUR, booked {booked / 100:,.2f} EUR, {len(table)} differences\n\n{by_kind.to_string()}"
    opened = await himalia.call("tickets.open_ticket", title=f"Reconciliation of {month}", text=text)
    return {"ticket": opened["ticket"], "differences": len(table), "summary": text.splitlines()[0]}
