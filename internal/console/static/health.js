// The charts of a day. The figures stand in the page; nothing is loaded.
"use strict";

(() => {
  const at = document.getElementById("charts");
  if (!at || !window.uPlot) return;
  const all = JSON.parse(at.dataset.chart);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const charts = [
    ["Turns a minute", [["answered", 3, "--accent"], ["failed", 4, "--bad"]]],
    ["Messages that wait", [["inbound", 1, "--accent"], ["outbound", 2, "--wait"]]],
    ["Tool calls a minute", [["calls", 5, "--accent"]]],
    ["Tokens a minute", [["tokens", 6, "--accent"]]],
    ["Memory, MiB", [["process", 7, "--accent"]]],
  ];
  const axis = () => ({ stroke: style("--calm"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") } });
  const short = (n) => n >= 1e6 ? n / 1e6 + " M" : n >= 1e3 ? n / 1e3 + " k" : n;
  // A label of one line: the two of uPlot lie over one another where a chart is narrow.
  const clock = (u, all, axis, space, step) => all.map((t) => {
    const at = new Date(t * 1000).toTimeString();
    return at.slice(0, step < 60 ? 8 : 5);
  });
  const draw = () => {
    at.replaceChildren();
    for (const [title, lines] of charts) {
      const box = document.createElement("section");
      box.className = "chart";
      box.innerHTML = "<h2></h2>";
      box.firstChild.textContent = title;
      at.append(box);
      new uPlot({
        width: box.clientWidth - 24, height: 160, cursor: { sync: { key: "day" } },
        scales: { y: { range: (u, min, max) => [0, Math.max(max * 1.1, 1)] } },
        series: [{}, ...lines.map(([label, , colour]) => ({ label, stroke: style(colour), width: 1.5, points: { size: 4 }, value: (u, v) => v == null ? "--" : v.toFixed(v < 10 ? 1 : 0) }))],
        axes: [{ ...axis(), space: 64, values: clock }, { ...axis(), size: 46, values: (u, all) => all.map(short) }],
      }, [all[0], ...lines.map(([, column]) => all[column])], box);
    }
  };
  draw();
  let late;
  addEventListener("resize", () => { clearTimeout(late); late = setTimeout(draw, 150); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
