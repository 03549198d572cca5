// Sessions as a morning's work leaves them, for pictures of the viewer: an analysis in progress, its branches, others that are idle or dead.

import { NativeSession } from './native-session.js';
import { until } from './until.js';

const CELLS = [
  `import numpy as np
import pandas as pd
import matplotlib.pyplot as plt
%matplotlib inline

rng = np.random.default_rng(7)
days = pd.date_range("2025-01-01", "2025-12-31")
season = np.sin((days.day_of_year - 100) / 365 * 2 * np.pi)
trips = pd.DataFrame({
    "day": days,
    "temperature": (11 + 9 * season + rng.normal(0, 2.6, len(days))).round(1),
    "rain_mm": np.where(rng.random(len(days)) < 0.3, rng.gamma(1.6, 4, len(days)), 0).round(1),
    "holiday": days.day_of_week >= 5,
})
trips["riders"] = (2100 + 92 * trips.temperature - 38 * trips.rain_mm - 420 * trips.holiday
                   + rng.normal(0, 190, 365)).round().astype(int)
print(f"{len(trips)} days, {trips.riders.sum():,} riders")`,
  'trips.head()',
  `fig, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
ax.plot(trips.day, trips.riders, lw=0.8, color="#b9bde8")
ax.plot(trips.day, trips.riders.rolling(14, center=True).mean(), lw=2, color="#4c4cc4")
ax.set_title("Riders a day, and their mean of two weeks", loc="left")
ax.spines[["top", "right"]].set_visible(False)`,
  'trips.groupby("holdiay").riders.mean()',
  'trips.groupby("holiday").riders.mean().round()',
  `fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
dots = ax.scatter(trips.temperature, trips.riders, c=trips.rain_mm, s=14, cmap="viridis")
fig.colorbar(dots, label="rain, mm")
ax.set(xlabel="temperature, °C", ylabel="riders")
ax.spines[["top", "right"]].set_visible(False)`,
  `from IPython.display import display
display({
    "application/vnd.vegalite.v5+json": {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json", "width": 420, "height": 180,
        "data": {"values": [{"month": f"{m:02d}", "riders": int(r)} for m, r in trips.groupby(trips.day.dt.month).riders.mean().items()]},
        "mark": {"type": "bar", "color": "#4c4cc4"},
        "encoding": {"x": {"field": "month", "type": "ordinal"}, "y": {"field": "riders", "type": "quantitative"}},
    },
    "text/plain": "Riders by month",
}, raw=True)`,
  `features = np.column_stack([trips.temperature, trips.rain_mm, trips.holiday, np.ones(len(trips))])
weights, *_ = np.linalg.lstsq(features, trips.riders, rcond=None)
fit = features @ weights
r2 = 1 - ((trips.riders - fit) ** 2).sum() / ((trips.riders - trips.riders.mean()) ** 2).sum()
print(f"R² = {r2:.3f}")
dict(zip(["temperature", "rain_mm", "holiday", "base"], weights.round(1).tolist()))`
];

/** The cell that is still running: a progress bar that stands still. */
const TRAINING = `import sys, time
for epoch in range(1, 4):
    print(f"epoch {epoch}  loss {2.1 / epoch:.3f}", flush=True)
sys.stderr.write("epoch 4:  62%|██████▏   | 31/50 [00:07<00:04,  4.3it/s]")
sys.stderr.flush()
while True: sum(range(200_000)); time.sleep(0.02)`;

/** Starts them, and returns the session of the analysis, which is busy. */
export async function analysis(gateway) {
  const main = await NativeSession.start(gateway, 'bike-demand', { labels: { agent: 'analyst', ticket: 'ride-214' } });
  for (const code of CELLS) await main.run(code);
  for (const tried of ['trees', 'linear']) {
    const answer = await gateway.call('POST', `${main.path}/fork`, { policy: 'report', labels: { model: tried } });
    if (!answer.ok) throw new Error(await answer.text());
  }
  await main.begin(TRAINING);
  const dead = await NativeSession.start(gateway, 'report-june', { labels: { agent: 'writer' }, limits: { memory_bytes: 256 << 20 } });
  await dead.begin('import numpy as np\nkeep = [np.ones(4 << 20) for _ in range(64)]').catch(() => {});
  await until('it has run out of memory', async () => (await dead.model()).reason !== null);
  const over = await NativeSession.start(gateway, 'report-may', { labels: { agent: 'writer' } });
  await over.run('print("12 pages, 4 figures")');
  await over.end();
  await NativeSession.start(gateway, 'fresh');
  await gateway.startKernel();
  return main;
}
