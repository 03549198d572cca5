"""The tables of a report, as the benches print them and as the pages show them: text made from the JSON that a bench wrote.

A figure that a report does not have is shown as `-`.
"""


def number(value, form=".2f"):
    """A figure, or `-`."""
    return "-" if value is None else format(value, form)


def span(values, form=".2f"):
    """Smallest to largest."""
    return "-" if not values else f"{min(values):{form}}-{max(values):{form}}"


def gateway(report):
    """The table of `make bench`."""
    direct = report["execute"]["direct"]["p50_ms"]
    lines = [f"execute on a kernel that does no work, v1 WebSocket (direct p50 {direct:.2f} ms)"]
    lines.append(f"  {'':26}{'p50 ms':>9}{'added':>9}{'p99 ms':>9}{'CPU s / 10,000':>17}{'range':>13}")
    for name, row in report["execute"].items():
        added = row["p50_ms"] - direct
        cpu = number(None if name == "direct" else row["cpu_s_per_10k"])
        lines.append(f"  {name:26}{row['p50_ms']:9.2f}{added:9.2f}{row['p99_ms']:9.2f}{cpu:>17}{span(row.get('cpu_blocks')):>13}")
    stream = report["stream"]
    lines.append(f"\n{report['stream_count']:,} stream messages of 8 kB, v1 WebSocket")
    lines.append(f"  {'':26}{'messages/s':>12}{'of direct':>11}{'lost':>8}{'CPU s / 100 MB':>17}")
    for name, row in stream.items():
        ratio = row["per_s"] / stream["direct"]["per_s"]
        cpu = number(None if name == "direct" else row["cpu_s_per_100mb"])
        lines.append(f"  {name:26}{row['per_s']:12,.0f}{ratio:11.2f}{row['lost']:8}{cpu:>17}")
    if "display" in report:
        display = report["display"]
        lines.append(f"\none display of {report['display_bytes'] / 1e6:.0f} MB, v1 WebSocket")
        lines.append(f"  {'':26}{'p50 ms':>9}{'of direct':>11}{'least ms':>10}{'CPU ms':>8}")
        for name, row in display.items():
            ratio = row["p50_ms"] / display["direct"]["p50_ms"]
            cpu = number(None if name == "direct" else row["cpu_ms"], ".0f")
            lines.append(f"  {name:26}{row['p50_ms']:9.0f}{ratio:11.2f}{row['least_ms']:10.0f}{cpu:>8}")
    lines.append("\ninterrupt of a cell that waits, over REST (direct: a signal), until the cell's reply and idle")
    lines.append(f"  {'':26}{'p50 ms':>9}{'slowest ms':>13}")
    for name, row in report["interrupt"].items():
        lines.append(f"  {name:26}{row['p50_ms']:9.2f}{row['max_ms']:13.2f}")
    if "lists" in report:
        lines.append("\n`GET /api/kernels` over eight connections, and resident memory of the gateway with one kernel")
        lines.append(f"  {'':26}{'requests/s':>12}{'CPU us each':>13}{'MiB':>8}")
        for name, row in report["lists"].items():
            lines.append(f"  {name:26}{row['per_s']:12,.0f}{row['cpu_us']:13.0f}{report['memory'][name]['mib']:8.1f}")
    found = report["adoption"]
    lines.append(f"\nkill -9 of the gateway with {found['kernels']} live kernels, {found['printing']} of them printing, then a new start")
    lines.append(f"  ready {found['ready_s']:.2f} s, all adopted {found['adopted_s']:.2f} s after the start of the process")
    return "\n".join(lines)


def tools(report):
    """Calls of tools from a session beside the same requests without one, the search, and what a model reads."""
    rows, naps = report["calls"], report["parallel"]
    direct = rows["direct"]
    lines = [f"a call of a tool of a server of MCP on loopback (namespaces), and {naps} at once of a tool that takes {report['nap_s'] * 1e3:.0f} ms"]
    lines.append(f"  {'':26}{'p50 ms':>9}{'added':>9}{'p99 ms':>9}{f'{naps} at once, s':>18}")
    for name, row in rows.items():
        lines.append(f"  {name:26}{row['p50_ms']:9.2f}{row['p50_ms'] - direct['p50_ms']:9.2f}{row['p99_ms']:9.2f}{row['parallel_s']:18.2f}")
    search, context = report["search"], report["context"]
    lines.append(f"\nsearch among {report['tools']:,} tools, over REST: p50 {search['p50_ms']:.2f} ms, p99 {search['p99_ms']:.2f} ms")
    lines.append(f"characters to find one of them and call it, code and output: {context['steps']:,}; all schemas: {context['schemas']:,}")
    return "\n".join(lines)


def network(report):
    """The proxy of sandboxes beside none and tinyproxy."""
    rows = report["network"]
    direct = rows["direct"]
    lines = ["a download of 200 MB from loopback through the proxy of a sandbox (namespaces), and new connections"]
    lines.append(f"  {'':26}{'MB/s':>9}{'of direct':>11}{'CPU s / GB':>12}{'connect p50 ms':>16}{'added':>8}")
    for name, row in rows.items():
        cpu = number(None if name == "direct" else row["cpu_s_per_gb"])
        added = row["connect_p50_ms"] - direct["connect_p50_ms"]
        lines.append(f"  {name:26}{row['mb_per_s']:9,.0f}{row['mb_per_s'] / direct['mb_per_s']:11.2f}{cpu:>12}{row['connect_p50_ms']:16.2f}{added:8.2f}")
    return "\n".join(lines)


def wheel(report):
    """The seconds from an empty machine with Python to the first plot."""
    lines = [f"a minimal Debian 12 with python3-venv, and the wheel ({report['bytes'] / 1e6:.0f} MB)", f"  {'':26}{'after s':>9}"]
    lines += [f"  {step:26}{seconds:9}" for step, seconds in report["steps"]]
    return "\n".join(lines)


def build(report):
    """The cost of `make demo` from nothing."""
    sizes = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in report["bytes"].items())
    rows = [
        ("wall time", f"{report['wall_s'] / 60:.1f} min"),
        ("processor time", f"{report['cpu_s'] / 60:.1f} min"),
        ("compilations", f"{report['compilations']}"),
        ("lines of Rust of the product", f"{report['lines']:,}"),
    ]
    return "\n".join([f"{name:30}{value:>12}" for name, value in rows] + [f"programs: {sizes}"])


def timings(rows):
    """The table of `make timings`."""
    lines = [f"| `make {row['target']}` | {row['about']} | {row['wall_s'] / 60:.1f} | {row['cpu_s'] / 60:.1f} |" for row in rows]
    wall, cpu = (sum(row[key] for row in rows) / 60 for key in ("wall_s", "cpu_s"))
    head = ["| command | content | minutes | minutes of processor time |", "|---|---|---|---|"]
    return "\n".join([*head, *lines, f"| all, one after the other | | {wall:.0f} | {cpu:.0f} |"])


def sandboxes(report):
    """The table of `make bench-sandboxes`, level by level."""
    return "\n\n".join("\n".join(level(name, rows)) for name, rows in report["levels"].items())


def level(name, rows):
    """The lines of one level."""
    if "not_run" in rows:
        return [f"{name}: NOT RUN: {rows['not_run']}"]
    lines = [f"{name:42}{'p50':>10}{'p99':>10}   beside it"]

    def line(text, p50, p99=None, note=""):
        lines.append(f"  {text:40}{p50:>10}{number(p99, '.1f'):>10}   {note}".rstrip())

    ways = rows["starts"]
    for what, title in (("kernel_info", "first kernel_info reply"), ("imports", "`import pandas` done")):
        cold = ways["cold"][what]["p50_ms"]
        for way in ("cold", "zygote", "pool"):
            found = ways.get(way, {}).get(what)
            if found:
                line(f"{title}, {way}, ms", f"{found['p50_ms']:.1f}", found["p99_ms"], "" if way == "cold" else f"1/{cold / found['p50_ms']:.0f} of cold")
    found, cold = rows["memory_mib"], rows["memory_cold_mib"]
    note = f"cold: {cold:.0f}, so 1/{cold / found['each']:.1f}" + (f"; {found['once']:.0f} once for all" if found["once"] else "")
    line("memory that each working kernel adds, MiB", f"{found['each']:.0f}", None, note)
    fork = rows["fork"]
    own = fork["private_mib"]
    line("fork of a session with 1 GB, ms", f"{fork['p50_ms']:.1f}", fork["p99_ms"], "" if own is None else f"the child's own: {own:.0f} MiB")
    if "sustained" in rows:
        found = rows["sustained"]
        line("claims one after the other, ms", number(found["p50_ms"], ".1f"), found["p99_ms"], f"{found['per_s']:.1f} per second")
    if "burst" in rows:
        found = rows["burst"]
        ways = ", ".join(f"{count} by {way}" for way, count in sorted(found["started_by"].items()))
        line(f"{sum(found['started_by'].values())} claims at once, ms", number(found["p50_ms"], ".1f"), found["p99_ms"], ways)
        for step in ("given_away", "told"):
            which = found.get(step)
            if which:
                line(f"  {step.replace('_', ' ')} in the order of asking, %", f"{which['pairs_in_order']:.0f}", None, f"worst: overtaken by {which['overtaken_by']} later")
    if "crowd" in rows:
        found = rows["crowd"]
        line(f"answer while {found['sessions']} working sessions live, ms", f"{found['p50_ms']:.1f}", found["p99_ms"], f"slowest: {found['slowest_ms']:.1f}")
    return lines


def cluster(report):
    """The table of `make bench-cluster`."""
    execute, stream = report["execute"], report["stream"]
    single, owner, relayed = (execute[name]["p50_ms"] for name in ("single", "owner", "relayed"))
    lines = [f"{'':62}{'p50':>9}{'p99':>9}"]

    def line(text, first, second="", note=""):
        lines.append(f"{text:62}{first:>9}{second:>9}   {note}".rstrip())

    line("execute, one gateway on SQLite and local files, ms", number(single), number(execute["single"]["p99_ms"]))
    line("  added by Postgres and the shared log, on the owner", number(owner - single), number(execute["owner"]["p99_ms"]))
    line("  added again through another replica", number(relayed - owner), number(execute["relayed"]["p99_ms"]))
    size = report["stream_count"] * 8_000 / 1e6
    lines.append(f"\n{'stream of ' + format(size, '.0f') + ' MB from one session':62}{'MB/s':>9}{'of single':>11}{'CPU s':>9}{'+ services':>12}{'lost':>7}")
    for name, row in stream.items():
        ratio = row["mb_per_s"] / stream["single"]["mb_per_s"]
        lines.append(f"  {name:60}{row['mb_per_s']:9.0f}{ratio:11.2f}{row['cpu_s']:9.2f}{row['services_cpu_s']:12.2f}{row['lost']:7}")
    lines.append("")
    if "loss" in report:
        row = report["loss"]
        line(f"kill -9 of the owner of {row['sessions']} sessions that print, lease {row['lease_s']} s", "p50", "all")
        line("  until their clients at another replica hear them again, s", number(row["p50_s"]), number(row["all_s"]))
    if "handover" in report:
        row = report["handover"]
        line(f"planned end of the owner of {row['sessions']} sessions that print", "p50", "p99")
        line("  longest silence of a session, s", number(row["p50_s"]), number(row["p99_s"]), f"before: {row['steady_p50_s']:.2f}; longest: {row['max_s']:.2f}")
    if "known" in report:
        row = report["known"]
        lines.append(f"\n{row['sessions']:,} live sessions on one replica (commit {row['commit']}): {row['mib']:.0f} MiB (empty: {row['empty_mib']:.0f}), {row['idle_cpu_percent']:.1f} % of a core while all are idle,")
        lines.append(f"{row['active_cpu_percent']:.1f} % while each of {row['active']} executes once in 5 s")
    if "claims" in report:
        row = report["claims"]
        lines.append("")
        line(f"start from a pool of pods (contract server, commit {row['commit']}), ms", "p50", "p99")
        line("  one after the other", number(row["p50_ms"]), number(row["p99_ms"]))
        line(f"  {row['at_once']} at once", number(row["burst_p50_ms"]), number(row["burst_p99_ms"]))
    return "\n".join(lines)


def summary(gateway_report, sandboxes_report):
    """README's two tables, in Markdown: the most important figures of both reports."""
    peers = {"Himalia": "himalia"}
    for title, name in (("jupyter_server", "jupyter_server"), ("Kernel Gateway", "kernel_gateway")):
        peers |= {title: name, f"{title}, quick ACK": f"{name}+quickack"}
    peers["no gateway"] = "direct"
    execute, stream, interrupt = (gateway_report[part] for part in ("execute", "stream", "interrupt"))
    rows = [
        ("execute, p50", lambda name: f"{execute[name]['p50_ms']:.2f} ms"),
        ("CPU for 10,000 executes", lambda name: "-" if name == "direct" else f"{execute[name]['cpu_s_per_10k']:.1f} s"),
        ("stream messages of 8 kB", lambda name: f"{stream[name]['per_s']:,.0f}/s"),
        ("interrupt until idle, p50", lambda name: f"{interrupt[name]['p50_ms']:.2f} ms"),
    ]
    lines = _markdown("", peers, [(title, [figure(name) for name in peers.values()]) for title, figure in rows])
    levels = sandboxes_report["levels"]
    rows = [(f"new kernel, {way}", [_start(level, way) for level in levels.values()]) for way in ("cold", "zygote", "pool")]
    rows.append(("fork of a session with 1 GB", [_milliseconds(level.get("fork")) for level in levels.values()]))
    rows.append(("memory of one more kernel", [f"{level['memory_mib']['each']:.0f} MiB" for level in levels.values()]))
    return "\n".join(lines + [""] + _markdown("p50, to the first reply", levels, rows))


def _markdown(corner, columns, rows):
    """The lines of a table."""
    lines = [f"| {' | '.join((corner, *columns))} |", "|---" + "|---:" * len(columns) + "|"]
    return lines + [f"| {' | '.join((title, *cells))} |" for title, cells in rows]


def _start(level, way):
    """The median until the first reply of a kernel that was started in this way."""
    return _milliseconds(level.get("starts", {}).get(way, {}).get("kernel_info"))


def _milliseconds(found):
    """A median, or `-`."""
    return "-" if found is None else f"{found['p50_ms']:.0f} ms"


def origin(report):
    """Where the figures are from, and what has to be known about them: one line."""
    commit, changed, _ = report["commit"].partition("+")
    return f"commit {commit}{' with uncommitted changes' if changed else ''}, {report['date']}, {report['machine']}."
