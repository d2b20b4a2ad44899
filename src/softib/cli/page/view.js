// The page of `softib view`: draws the subnet that the server describes, and shows what changes.
//
// subnet.json is the output of `softib show --json`; layout.json says where the nodes are;
// switch.json?name=NAME has the forwarding tables of a switch, group.json?mlid=MLID the exits of a
// multicast LID. Text from the server is never parsed as HTML.
"use strict";

const kPollMs = 2000;
const kSvg = "http://www.w3.org/2000/svg";
const kMaxRows = 4096; // of a table

const byId = (id) => document.getElementById(id);

const state = {
  subnet: null,
  layout: null,
  nodes: new Map(), // name -> {element, kind, x, y, data, rate, drops}
  cables: new Map(), // key -> {element, ends}
  last: null, // {time, counters}
  chosen: null,
  current: null, // the node of the tab stop
  tree: null, // Map of switch -> Set of ports
  tables: null, // of the chosen switch
  box: null, // [x, y, width, height]
  paused: false,
  texts: new WeakMap(), // of elements that setChildren() has filled
};

// --- Values as text ------------------------------------------------------------------------------

function scaled(value, unit) {
  const units = ["", "k", "M", "G", "T"];
  let at = 0;
  while (value >= 1000 && at + 1 < units.length) { value /= 1000; at += 1; }
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toFixed(1)} ${units[at]}${unit}`;
}
const rateText = (bytes) => (bytes === null || bytes === undefined ? "" : scaled(bytes * 8, "bit/s"));
const countText = (count) => (count === undefined ? "" : count.toLocaleString("en"));

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function drawn(name, attributes, parent) {
  const made = document.createElementNS(kSvg, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}

// --- Data ----------------------------------------------------------------------------------------

async function fetched(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  return answer.json();
}

const isDrop = (name) => name.startsWith("drop_") || name === "discards" || name.endsWith("Errors") ||
  name.endsWith("Discards");
const dropsOf = (counters) =>
  Object.entries(counters || {}).reduce((sum, [name, value]) => (isDrop(name) ? sum + value : sum), 0);

/** Counters that make the rates: key -> [bytes, drops]. */
function countersOf(subnet) {
  const counters = new Map();
  for (const node of subnet.nodes) {
    const { sent_bytes: sent = 0, received_bytes: received = 0 } = node.counters || {};
    counters.set(`h ${node.name} ${node.port}`, [sent + received, dropsOf(node.counters)]);
  }
  for (const each of subnet.switches) {
    for (const port of each.ports) {
      if (port.to !== undefined) counters.set(`s ${each.name} ${port.port}`, [port.sent_bytes || 0, port.discards || 0]);
    }
  }
  return counters;
}

/** Bytes per second and new drops of a key since the last look; null if there was none. */
function changeOf(key, before, now) {
  const old = before && before.counters.get(key);
  const current = now.counters.get(key);
  if (!old || !current) return null;
  const seconds = (now.time - before.time) / 1000;
  return { rate: Math.max(0, current[0] - old[0]) / seconds, drops: Math.max(0, current[1] - old[1]) };
}

const isSwitchNode = (node) => !node.switch;
/** The state of a switch that the page shows as that of a port: active or down. */
const isUp = (data) => data.state === "active" || data.state === "present";
const inPartition = (node, pkey) =>
  (node.pkeys || []).some((each) => (parseInt(each, 16) & 0x7fff) === (parseInt(pkey, 16) & 0x7fff));

// --- The picture ---------------------------------------------------------------------------------

function cableKey(a, aPort, b, bPort) {
  const ends = [`${a} ${aPort}`, `${b} ${bPort}`].sort();
  return ends.join(" - ");
}

function draw() {
  const { subnet, layout } = state;
  const map = byId("map");
  const focused = map.contains(document.activeElement);
  map.replaceChildren();
  state.nodes.clear();
  state.cables.clear();
  const lines = drawn("g", {}, map);
  const nodes = drawn("g", {}, map);
  const place = (name, kind) => (kind === "switch" ? layout.switches : layout.hcas)[name];

  for (const each of subnet.switches) {
    const from = place(each.name, "switch");
    for (const port of each.ports) {
      const other = port.to !== undefined ? port.to : port.hca;
      const to = place(other, port.to !== undefined ? "switch" : "hca");
      if (!from || !to) continue;
      const key = cableKey(each.name, port.port, other, port.to !== undefined ? port.to_port : "");
      if (state.cables.has(key)) continue;
      const line = drawn("line", { class: "cable", x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, lines);
      state.cables.set(key, { element: line, title: drawn("title", {}, line) });
    }
  }
  const half = layout.switch_width / 2;
  for (const each of subnet.switches) {
    const at = place(each.name, "switch");
    if (!at) continue;
    const group = drawn("g", { class: "node", transform: `translate(${at[0]} ${at[1]})` }, nodes);
    drawn("rect", { x: -half, y: -12, width: 2 * half, height: 24, rx: 5 }, group);
    drawn("text", { y: 4, "text-anchor": "middle" }, group).textContent = shortened(each.name, layout.switch_width);
    addNode(each.name, "switch", at, group);
  }
  for (const each of subnet.nodes) {
    const at = place(each.name, "hca");
    if (!at || isSwitchNode(each) || state.nodes.has(each.name)) continue; // an HCA's second port
    const group = drawn("g", { class: "node", transform: `translate(${at[0]} ${at[1]})` }, nodes);
    drawn("circle", { r: 6 }, group);
    if (subnet.nodes.length <= 64) {
      const text = drawn("text", { transform: `rotate(${at[2]})`, x: 9, y: 4 }, group);
      text.textContent = each.name;
      text.classList.add("name");
      text.setAttribute("text-anchor", "start");
      if (at[2] > 90 && at[2] < 270) {
        text.setAttribute("transform", `rotate(${at[2] - 180})`);
        text.setAttribute("x", -9);
        text.setAttribute("text-anchor", "end");
      }
    }
    addNode(each.name, "hca", at, group);
  }
  if (!state.box) fit();
  if (!state.current || !state.nodes.has(state.current)) state.current = state.nodes.keys().next().value || null;
  if (state.current) state.nodes.get(state.current).element.setAttribute("tabindex", "0");
  if (focused && state.current) state.nodes.get(state.current).element.focus();
}

function shortened(name, width) {
  const most = Math.floor(width / 7);
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

function addNode(name, kind, at, group) {
  group.setAttribute("role", "button");
  group.setAttribute("tabindex", "-1");
  group.dataset.name = name;
  const title = drawn("title", {}, group);
  group.addEventListener("click", () => choose(name));
  group.addEventListener("keydown", (event) => onNodeKey(event, name));
  group.addEventListener("focus", () => setCurrent(name));
  state.nodes.set(name, { element: group, title, kind, x: at[0], y: at[1] });
}

function setCurrent(name) {
  const before = state.nodes.get(state.current);
  if (before) before.element.setAttribute("tabindex", "-1");
  state.current = name;
  state.nodes.get(name).element.setAttribute("tabindex", "0");
}

/** The nearest node in a direction, which counts distance along it once and across it twice. */
function neighbour(name, [dx, dy]) {
  const from = state.nodes.get(name);
  let best = null;
  let least = Infinity;
  for (const [other, to] of state.nodes) {
    const along = (to.x - from.x) * dx + (to.y - from.y) * dy;
    const across = Math.abs((to.x - from.x) * dy) + Math.abs((to.y - from.y) * dx);
    if (other === name || along <= 0) continue;
    const distance = along + 2 * across;
    if (distance < least) { least = distance; best = other; }
  }
  return best;
}

const kDirections = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function onNodeKey(event, name) {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    choose(name, true);
  } else if (kDirections[event.key]) {
    event.preventDefault();
    const next = neighbour(name, kDirections[event.key]);
    if (next) state.nodes.get(next).element.focus();
  } else if (event.key === "Home" || event.key === "End") {
    event.preventDefault();
    const names = [...state.nodes.keys()];
    state.nodes.get(event.key === "Home" ? names[0] : names[names.length - 1]).element.focus();
  }
}

/** Brings colours, widths and names up to date with the last look. */
function paint(change) {
  const { subnet } = state;
  const partition = byId("partition").value;
  const wanted = byId("find").value.trim().toLowerCase();
  let busy = 0;
  let dropped = 0;
  const mark = (entry, data, text, drops, isFaint) => {
    const classes = entry.element.classList;
    classes.toggle("down", !isUp(data));
    classes.toggle("bad", drops > 0);
    classes.toggle("chosen", data.name === state.chosen);
    classes.toggle("faint", isFaint);
    entry.element.setAttribute("aria-label", text);
    entry.title.textContent = text;
  };
  for (const each of subnet.switches) {
    const entry = state.nodes.get(each.name);
    if (!entry) continue;
    let drops = 0;
    for (const port of each.ports) {
      const now = change(`s ${each.name} ${port.port}`);
      drops += now ? now.drops : 0;
    }
    entry.drops = drops;
    dropped += drops;
    const text = `Switch ${each.name}, LID ${each.lid}, ${each.ports.length} cables, ${isUp(each) ? "up" : "absent"}`;
    const isFaint = Boolean(wanted) && !`${each.name} ${each.description}`.toLowerCase().includes(wanted);
    mark(entry, each, drops > 0 ? `${text}, drops packets` : text, drops, isFaint);
  }
  const seen = new Set();
  for (const each of subnet.nodes) {
    const entry = state.nodes.get(each.name);
    if (!entry || entry.kind !== "hca") continue;
    const now = change(`h ${each.name} ${each.port}`);
    const before = seen.has(each.name) ? entry : { rate: null, drops: 0 }; // its other port
    seen.add(each.name);
    entry.rate = now ? (before.rate || 0) + now.rate : before.rate;
    entry.drops = before.drops + (now ? now.drops : 0);
    busy += now ? now.rate : 0;
    dropped += now ? now.drops : 0;
    const text = `Host ${each.name}, LID ${each.lid}, ${each.state}${now ? `, ${rateText(now.rate)}` : ""}`;
    const isFaint = (Boolean(partition) && !inPartition(each, partition)) ||
      (Boolean(wanted) && !`${each.name} ${each.description}`.toLowerCase().includes(wanted));
    mark(entry, each, entry.drops > 0 ? `${text}, ${entry.drops} drops` : text, entry.drops, isFaint);
  }
  const cables = new Map(); // key -> {rate, drops, isDown, isTree, text}
  for (const each of subnet.switches) {
    for (const port of each.ports) {
      const isCable = port.to !== undefined;
      const other = isCable ? port.to : port.hca;
      const key = cableKey(each.name, port.port, other, isCable ? port.to_port : "");
      const now = isCable ? change(`s ${each.name} ${port.port}`) : change(`h ${other} ${port.hca_port}`);
      const one = cables.get(key) || { rate: 0, drops: 0, isDown: false, isTree: false, text: "" };
      one.rate += now ? now.rate : 0;
      one.drops += now && isCable ? now.drops : 0;
      one.isDown = one.isDown || port.state !== "active";
      one.isTree = one.isTree || Boolean(state.tree && (state.tree.get(each.name) || new Set()).has(port.port));
      one.text = one.text || `${each.name} port ${port.port} to ${other}${isCable ? ` port ${port.to_port}` : ""}`;
      cables.set(key, one);
    }
  }
  for (const [key, { element: line, title }] of state.cables) {
    const one = cables.get(key);
    if (!one) continue;
    line.classList.toggle("down", one.isDown);
    line.classList.toggle("bad", one.drops > 0);
    line.classList.toggle("busy", one.rate > 0);
    line.classList.toggle("tree", one.isTree);
    line.setAttribute("stroke-width", one.rate > 0 ? (1 + Math.min(5, Math.log10(1 + one.rate / 1000))).toFixed(1) : 1);
    title.textContent = `${one.text}, ${rateText(one.rate)}`;
  }
  return { busy, dropped };
}

// --- View box ------------------------------------------------------------------------------------

function setBox(box) {
  state.box = box;
  byId("map").setAttribute("viewBox", box.join(" "));
}
const fit = () => setBox([0, 0, Math.max(state.layout.width, 100), Math.max(state.layout.height, 100)]);
function zoom(factor, middle) {
  if (!state.box) return;
  const [x, y, width, height] = state.box;
  const [atX, atY] = middle || [x + width / 2, y + height / 2];
  setBox([atX - (atX - x) * factor, atY - (atY - y) * factor, width * factor, height * factor]);
}
function pointOf(event) {
  const map = byId("map");
  const matrix = map.getScreenCTM();
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
  return [point.x, point.y];
}
function onMapPointer() {
  const map = byId("map");
  let from = null;
  map.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return; // as in maps: the page scrolls without
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, pointOf(event));
  }, { passive: false });
  map.addEventListener("pointerdown", (event) => {
    if (!event.target.closest(".node")) from = pointOf(event);
  });
  map.addEventListener("pointermove", (event) => {
    if (!from || !state.box) return;
    const to = pointOf(event);
    const [x, y, width, height] = state.box;
    setBox([x - (to[0] - from[0]), y - (to[1] - from[1]), width, height]);
  });
  for (const name of ["pointerup", "pointerleave"]) map.addEventListener(name, () => { from = null; });
}

// --- Tables --------------------------------------------------------------------------------------

/** A table; columns are [title, isNumber]. Cells are texts or elements. */
function table(caption, columns, rows) {
  const made = element("table");
  made.append(element("caption", rows.length > kMaxRows ? `${caption}: the first ${kMaxRows} of ${rows.length}` : caption));
  const head = element("tr");
  for (const [title, isNumber] of columns) {
    head.append(element("th", title, { scope: "col", ...(isNumber ? { class: "number" } : {}) }));
  }
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  for (const row of rows.slice(0, kMaxRows)) {
    const line = element("tr");
    row.forEach((cell, index) => {
      const made1 = element("td", undefined, columns[index][1] ? { class: "number" } : {});
      made1.append(cell === undefined || cell === null ? "" : cell);
      line.append(made1);
    });
    body.append(line);
  }
  made.append(top, body);
  return made;
}

/** Replaces what has changed only: a screen reader keeps its place. */
function setChildren(parent, children) {
  const text = children.map((child) => child.textContent).join("\n");
  if (state.texts.get(parent) === text) return;
  state.texts.set(parent, text);
  parent.replaceChildren(...children);
}

function link(name) {
  if (!name || !state.nodes.has(name)) return name || "";
  const made = element("button", name, { type: "button" });
  made.addEventListener("click", () => choose(name, true));
  return made;
}

function counterRows(counters) {
  const rows = Object.entries(counters || {}).map(([name, value]) => {
    const isBad = isDrop(name) && value > 0;
    return [isBad ? element("span", name, { class: "warn" }) : name, countText(value)];
  });
  return rows;
}

/** LID -> name. */
function namesOfLids() {
  const names = new Map();
  for (const each of state.subnet.switches) names.set(each.lid, each.name);
  for (const each of state.subnet.nodes) {
    for (let i = 0; i < 2 ** (each.lmc || 0); i += 1) names.set(each.lid + i, each.name);
  }
  return names;
}

function switchTables(data) {
  const ports = new Map(data.ports.map((port) => [port.port, port.to !== undefined ? port.to : port.hca]));
  const out = [table("Attributes", [["", false], ["", false]], [
    ["Description", data.description], ["LID", String(data.lid)], ["GUID", data.guid], ["State", data.state]])];
  out.push(table("Ports", [["Port", true], ["To", false], ["State", false], ["Rate", true], ["Packets", true],
    ["Bytes", true], ["Discards", true]], data.ports.map((port) => {
    const now = state.change ? state.change(`s ${data.name} ${port.port}`) : null;
    return [String(port.port), link(port.to !== undefined ? port.to : port.hca), port.state,
      now ? rateText(now.rate) : "", countText(port.sent_packets), countText(port.sent_bytes),
      countText(port.discards)];
  })));
  if (!state.tables) return out;
  const names = namesOfLids();
  out.push(table("Linear forwarding table (LFT)", [["LID", true], ["Node", false], ["Exit port", true], ["To", false]],
    state.tables.lft.map(([lid, port]) => [String(lid), link(names.get(lid)), String(port),
      port === 0 ? "itself" : link(ports.get(port))])));
  out.push(table("Multicast forwarding table (MFT)", [["MLID", false], ["Exit ports", false]],
    state.tables.mft.map(({ mlid, ports: exits }) => [mlid,
      exits.map((port) => `${port}${ports.has(port) ? ` (${ports.get(port)})` : ""}`).join(", ")])));
  return out;
}

function hostTables(data) {
  const rows = [["Description", data.description], ["State", data.state], ["LID", String(data.lid)],
    ["GID", data.gid], ["Node GUID", data.node_guid], ["MTU", data.mtu && String(data.mtu)],
    ["Rate", data.rate_mbps && scaled(data.rate_mbps * 1e6, "bit/s")], ["Switch", link(data.switch)],
    ["Port of the switch", data.switch_port && String(data.switch_port)],
    ["P_Keys", (data.pkeys || []).join(", ")], ["Addresses", (data.addresses || []).join(", ")],
    ["Processes", data.processes && (data.processes.map((each) => each.pid).join(", ") || "none")]];
  const groups = (state.subnet.groups || []).filter((group) => (group.receivers || []).includes(data.name));
  return [table("Attributes", [["", false], ["", false]], rows.filter((row) => row[1] !== undefined && row[1] !== "")),
    table("Groups", [["MGID", false], ["MLID", false]], groups.map((group) => [group.mgid || "", group.mlid])),
    table("Counters", [["Counter", false], ["Value", true]], counterRows(data.counters))];
}

function dataOf(name) {
  return state.subnet.switches.find((each) => each.name === name) ||
    state.subnet.nodes.find((each) => each.name === name);
}

/** Shows the tables of the chosen node; a focused button stays focused. */
function showDetails() {
  if (!state.chosen) return;
  const data = dataOf(state.chosen);
  byId("chosen").textContent = data ? `${data.ports ? "Switch" : "Host"} ${data.name}` : `${state.chosen} is gone`;
  const tables = byId("tables");
  if (tables.contains(document.activeElement)) return; // it would be replaced
  setChildren(tables, data ? (data.ports ? switchTables(data) : hostTables(data)) : []);
}

async function choose(name, takesFocus = false) {
  state.chosen = name;
  state.tables = null;
  for (const [other, entry] of state.nodes) entry.element.classList.toggle("chosen", other === name);
  document.activeElement.blur();
  showDetails();
  if (takesFocus) byId("details").focus();
  await loadTables();
  showDetails();
}

async function loadTables() {
  const name = state.chosen;
  const data = name && dataOf(name);
  if (!data || !data.ports || state.subnet.source === "ibnetdiscover") return;
  try {
    const tables = await fetched(`switch.json?name=${encodeURIComponent(name)}`);
    if (state.chosen === name) state.tables = tables;
  } catch (error) {
    state.tables = null;
  }
}

function listNodes() {
  const nodes = byId("nodes");
  if (nodes.contains(document.activeElement) && document.activeElement !== nodes) return;
  const wanted = byId("find").value.trim().toLowerCase();
  const matches = (each) => !wanted || `${each.name} ${each.description}`.toLowerCase().includes(wanted);
  const rows = [];
  for (const each of state.subnet.switches.filter(matches)) {
    const entry = state.nodes.get(each.name);
    rows.push([link(each.name), "switch", String(each.lid), each.state, "", entry && entry.drops ? String(entry.drops) : "0"]);
  }
  for (const each of state.subnet.nodes.filter(matches)) {
    if (isSwitchNode(each) && state.nodes.get(each.name)?.kind !== "hca") continue;
    const entry = state.nodes.get(each.name);
    rows.push([link(each.name), "host", String(each.lid), each.state, rateText(entry && entry.rate),
      entry && entry.drops ? String(entry.drops) : "0"]);
  }
  setChildren(nodes, [table("Nodes", [["Name", false], ["Kind", false], ["LID", true], ["State", false],
    ["Rate", true], ["New drops", true]], rows)]);
}

// --- Choices -------------------------------------------------------------------------------------

function setOptions(select, first, options) {
  const value = select.value;
  const texts = options.map(([key, text]) => `${key}\n${text}`).join("\n");
  if (select.dataset.texts === texts) return;
  select.dataset.texts = texts;
  select.replaceChildren(element("option", first, { value: "" }),
    ...options.map(([key, text]) => element("option", text, { value: key })));
  select.value = options.some(([key]) => key === value) ? value : "";
}

async function loadTree() {
  const mlid = byId("group").value;
  state.tree = null;
  if (!mlid) return;
  try {
    const { exits } = await fetched(`group.json?mlid=${encodeURIComponent(mlid)}`);
    state.tree = new Map(exits.map((each) => [each.switch, new Set(each.ports)]));
  } catch (error) {
    state.tree = null;
  }
}

// --- The loop ------------------------------------------------------------------------------------

/** A screen reader reads the status aloud when it changes, so the rates are elsewhere. */
function say(text) {
  if (byId("status").textContent !== text) byId("status").textContent = text;
}

/** What the layout depends on. */
const shapeOf = (subnet) => JSON.stringify([
  subnet.switches.map((each) => [each.name, each.ports.map((port) => [port.port, port.to, port.to_port, port.hca])]),
  subnet.nodes.map((each) => [each.name, each.switch])]);

function repaint() {
  if (!state.subnet || !state.layout) return;
  const { busy, dropped } = paint(state.change || (() => null));
  const { subnet } = state;
  const hosts = subnet.nodes.filter((each) => !isSwitchNode(each)).length;
  const parts = [`${subnet.switches.length} switches`, `${hosts} hosts`];
  if (subnet.running === false) parts.push("the subnet process does not run");
  if (state.paused) parts.push("paused");
  say(parts.join(", "));
  byId("rates").textContent = state.change ? `${rateText(busy)}, ${dropped} new drops` : "";
  showDetails();
  listNodes();
}

async function look() {
  const subnet = await fetched("subnet.json");
  const now = { time: performance.now(), counters: countersOf(subnet) };
  const before = state.last;
  state.change = before ? (key) => changeOf(key, before, now) : null;
  state.last = now;
  state.subnet = subnet;
  document.title = `${subnet.subnet} - softib view`;
  byId("title").textContent = `Subnet ${subnet.subnet}`;
  setOptions(byId("partition"), "all", (subnet.partitions || []).map((each) => [each.pkey, each.pkey]));
  setOptions(byId("group"), "none", (subnet.groups || []).map((each) => [each.mlid,
    `${each.mlid}${each.mgid ? ` ${each.mgid}` : ""}`]));
  const shape = shapeOf(subnet);
  if (shape !== state.shape) {
    state.layout = await fetched("layout.json");
    state.shape = shape;
    draw();
  }
  await loadTree();
  await loadTables();
  repaint();
}

async function run() {
  for (;;) {
    if (!state.paused && !document.hidden) {
      try {
        await look();
      } catch (error) {
        say(`No data: ${error.message}`);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, kPollMs));
  }
}

byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("partition").addEventListener("change", repaint);
byId("group").addEventListener("change", async () => { await loadTree(); repaint(); });
byId("find").addEventListener("input", repaint);
byId("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  byId("pause").setAttribute("aria-pressed", String(state.paused));
  repaint();
});
byId("in").addEventListener("click", () => zoom(1 / 1.3));
byId("out").addEventListener("click", () => zoom(1.3));
byId("fit").addEventListener("click", fit);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !state.chosen) return;
  const entry = state.nodes.get(state.chosen);
  if (entry) entry.element.focus();
});
onMapPointer();
run();
