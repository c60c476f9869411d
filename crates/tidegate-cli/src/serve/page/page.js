"use strict";

// Everything shown is set as text, never as markup: names and keys are not ours.
const element = (id) => document.getElementById(id);
let keyHeader = null;
let timer = null;

function headers() {
  const key = element("key").value;
  return key !== "" && keyHeader !== null ? { [keyHeader]: key } : {};
}

function duration(ms) {
  if (ms < 1000) return `${ms} ms`;
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.ceil(minutes / 60)} h`;
}

function cell(content, isNumber) {
  const td = document.createElement("td");
  if (content instanceof Node) td.append(content);
  else td.textContent = String(content);
  if (isNumber) td.className = "number";
  return td;
}

function budgetCells(budget, tier) {
  const meter = document.createElement("meter");
  meter.max = budget.limit;
  meter.value = budget.remaining;
  const isFull = budget.remaining >= budget.limit;
  return [
    cell(budget.is_enforced ? budget.policy : `${budget.policy} (only watched)`),
    cell(budget.quota),
    cell(`${budget.remaining} of ${budget.limit}`, true),
    cell(meter),
    cell(isFull ? "full" : duration(budget.reset_ms)),
    cell(tier === null ? budget.key : `${tier} ${budget.key}`),
  ];
}

function rows(id, items, cells) {
  element(id).replaceChildren(
    ...items.map((item) => {
      const tr = document.createElement("tr");
      tr.append(...cells(item));
      if (item.remaining === 0) tr.className = "spent";
      return tr;
    }),
  );
}

async function refresh() {
  clearTimeout(timer);
  try {
    const response = await fetch("status.json", { headers: headers(), cache: "no-store" });
    if (!response.ok) throw new Error(`status ${response.status}`);
    const status = await response.json();
    keyHeader = status.you.key_header;
    const tier = status.you.tier === null ? "of no tier" : `of the tier ${status.you.tier}`;
    element("who").textContent = `You are ${status.you.address}, ${tier}.`;
    rows("budgets", status.you.budgets, (budget) => budgetCells(budget, null));
    rows("busiest", status.busiest, (busy) => [
      ...budgetCells(busy, busy.tier),
      cell(busy.requests, true),
    ]);
    rows("policies", status.policies, (policy) => [
      cell(policy.policy),
      cell(policy.admitted, true),
      cell(policy.refused, true),
      cell(policy.shadow_refused, true),
      cell(policy.full, true),
      cell(policy.errors, true),
    ]);
  } catch (error) {
    element("who").textContent = `The server does not answer: ${error.message}`;
  }
  timer = setTimeout(refresh, document.hidden ? 10000 : 1000);
}

element("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const response = await fetch(element("route").value, { headers: headers(), cache: "no-store" });
    const text = (await response.text()).trim();
    element("answer").textContent = `${response.status}: ${text}`;
  } catch (error) {
    element("answer").textContent = error.message;
  }
  refresh();
});
element("key").addEventListener("change", refresh);
document.addEventListener("visibilitychange", refresh);
refresh();
