// Keeps what the page loads, with the licences: the chart library, and land and borders as lists of lines.
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const { feature, mesh } = createRequire(import.meta.url)("topojson-client");
const world = JSON.parse(readFileSync("node_modules/world-atlas/countries-110m.json"));
const rounded = (line) => line.map(([x, y]) => [Math.round(x * 100) / 100, Math.round(y * 100) / 100]);
const land = feature(world, world.objects.land).features[0].geometry.coordinates.flat().map(rounded);
const borders = mesh(world, world.objects.countries, (a, b) => a !== b).coordinates.map(rounded);

mkdirSync("assets");
writeFileSync("assets/world.json", JSON.stringify({ land, borders }));
copyFileSync("node_modules/uplot/dist/uPlot.esm.js", "assets/uPlot.js");
copyFileSync("node_modules/uplot/dist/uPlot.min.css", "assets/uPlot.css");
for (const name of ["uplot", "world-atlas", "topojson-client"]) {
  copyFileSync(`node_modules/${name}/LICENSE`, `assets/${name}.LICENSE`);
}
rmSync("node_modules", { recursive: true });
