"""The analysis: each stage is run by its own call, in one kernel, and uses the variables of the earlier ones."""

# Carbon dioxide in the air at Mauna Loa, Hawaii: weekly means from flask samples, 1958 to 2001, with missing weeks.
# C. D. Keeling, T. P. Whorf and others, Scripps Institution of Oceanography. Comes with statsmodels.
STAGES = [
    (
        "load",
        """
import numpy as np, pandas as pd
from statsmodels.datasets import co2

weekly = co2.load_pandas().data["co2"]
print(f"{len(weekly)} weeks, {weekly.index[0]:%b %Y} to {weekly.index[-1]:%b %Y}, {weekly.isna().sum()} missing")
weekly.describe().round(1).to_frame("ppm").T
""",
    ),
    (
        "clean",
        """
missing = weekly.isna()
gap = (missing != missing.shift()).cumsum()[missing]
gaps = gap.groupby(gap).agg(weeks="size", first=lambda g: g.index[0], last=lambda g: g.index[-1])
print(f"{len(gaps)} gaps; the longest:")
print(gaps.nlargest(3, "weeks").to_string(index=False))

monthly = weekly.resample("MS").mean()
holes = monthly.index[monthly.isna()]
monthly = monthly.interpolate("time")
print(f"{len(monthly)} months, {len(holes)} of them interpolated")
assert monthly.notna().all()
""",
    ),
    (
        "statistics",
        """
import statsmodels.api as sm
from statsmodels.tsa.seasonal import STL

years = (monthly.index - monthly.index[0]).days / 365.25
fits = {}
for degree, name in [(1, "straight line"), (2, "parabola")]:
    fits[name] = sm.OLS(monthly.to_numpy(), np.vander(years, degree + 1)).fit()
    print(f"{name:14} R2 {fits[name].rsquared:.4f}   AIC {fits[name].aic:8.1f}")

parts = STL(monthly, period=12, robust=True).fit()
growth = parts.trend.diff(12).dropna()
decades = growth.groupby(growth.index.year // 10 * 10).agg(["mean", "std"]).round(2)
cycle = parts.seasonal.groupby(parts.seasonal.index.month).mean()
print(f"swing {cycle.max() - cycle.min():.1f} ppm: high in month {cycle.idxmax()}, low in month {cycle.idxmin()}")
print("growth of the trend, ppm per year, by decade:")
decades
""",
    ),
    (
        "plot",
        """
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), width_ratios=[2, 1], layout="constrained")
left.plot(weekly, ".", markersize=1.5, color="0.65", label="weekly means")
left.plot(parts.trend, color="tab:red", label="trend (STL)")
left.plot(monthly[holes], "o", markersize=4, color="tab:blue", label="interpolated months")
left.set(title="CO2 at Mauna Loa", ylabel="ppm"); left.legend(frameon=False)
right.bar(cycle.index, cycle, color=np.where(cycle > 0, "tab:orange", "tab:green"))
right.set(title="Seasonal cycle", xlabel="month", ylabel="ppm around the trend")
plt.show()
print(f"{parts.trend.iloc[0]:.0f} ppm at the start, {parts.trend.iloc[-1]:.0f} ppm at the end")
""",
    ),
]
