// The charts of a report; the page around them holds their figures.

import "./language.js"; // before the modules that import uPlot
import { bars, tails } from "./charts.js";

const place = (id) => document.getElementById(id);
const { alerts, latencies } = JSON.parse(place("figures").textContent);

if (latencies) tails(place("latencies"), latencies);
if (alerts) bars(place("alerts"), { title: "alerts by rule", is_additive: true, window_ms: alerts.window_ms }).show(alerts);
