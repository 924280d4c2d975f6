// A reader in headless Chromium: node browser.mjs '{"url": ..., "backend": ..., "screenshots": ...}'
// What it records goes to standard output as JSON.

import { createRequire } from "node:module";

const task = JSON.parse(process.argv[2]);
const { chromium } = createRequire(`${task.modules}/`)("playwright-core");
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: task.chromium, args: quiet });
const report = { problems: [], outside: [], steps: {} };
const origin = new URL(task.url).origin;

async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(task.patience ?? 300000);
  page.on("console", (message) => message.type() === "error" && report.problems.push(message.text()));
  page.on("pageerror", (problem) => report.problems.push(String(problem)));
  page.on("request", (request) => /^(blob|data):/.test(request.url()) || new URL(request.url()).origin === origin || report.outside.push(request.url()));
  await page.goto(task.url);
  await page.waitForSelector("body[data-ready]");
  await settled(page);
  return page;
}

// All predictions that were asked for have come.
async function settled(page) {
  await page.waitForFunction(() => pdno.predictions.length > 0 && !pdno.busy);
}

// The last prediction with what it was made of.
function result(page) {
  return page.evaluate(() => ({
    input: [...pdno.state.values], shape: pdno.state.shape,
    predictions: pdno.predictions.map((one) => ({ values: [...one.values], shape: one.shape, seconds: one.seconds })),
    truth: pdno.truth && { values: [...pdno.truth.values], shape: pdno.truth.shape },
    numbers: [...document.querySelectorAll("#numbers tr")].map((row) => [...row.cells].map((cell) => cell.textContent)),
    status: document.getElementById("status").textContent,
  }));
}

async function choose(page, title) {
  await page.selectOption("#operator", { label: title });
  await settled(page);
}

// One stroke with each brush; the second ends the first, so something changes.
async function paint(page) {
  const box = await page.locator("#input").boundingBox();
  for (const [index, x] of [[1, 0.3], [0, 0.4]]) {
    await page.selectOption("#brush", { index });
    await page.mouse.move(box.x + x * box.width, box.y + 0.3 * box.height);
    await page.mouse.down();
    await page.mouse.move(box.x + (x + 0.2) * box.width, box.y + 0.5 * box.height, { steps: 5 });
    await page.mouse.up();
  }
  await settled(page);
}

async function draw(page) {
  await choose(page, task.flow);
  await page.fill("#seed", "3");
  await settled(page);
  report.steps.random = await result(page);
  await paint(page);
  report.steps.painted = await result(page);
  await page.selectOption("#brush", { index: 1 });
  await page.focus("#input");
  for (const key of ["ArrowRight", "ArrowUp", "Space"]) await page.keyboard.press(key);
  await settled(page);
  report.steps.keyboard = await result(page);
  const states = () => page.evaluate(() => [...pdno.state.values]);
  const painted = await states();
  await page.click("#clear");
  await settled(page);
  report.steps.cleared = new Set(await states()).size;
  await page.click("#undo");
  await settled(page);
  report.steps.undone = JSON.stringify(await states()) === JSON.stringify(painted);
  const timed = [];
  for (let turn = 0; turn < 5; turn++) {
    await page.click("#next-seed");
    await settled(page);
    timed.push((await result(page)).predictions[0].seconds);
  }
  report.steps.seconds = timed;
}

async function compare(page) {
  await page.selectOption("#second", { label: task.other });
  await settled(page);
  if (task.backend === "server") {
    await page.click("#solve");
    await page.waitForFunction(() => pdno.truth !== null);
  } else {
    await page.selectOption("#samples", { index: 1 });
    await settled(page);
  }
  report.steps.compared = await result(page);
  await page.screenshot({ path: `${task.screenshots}/${task.backend}-compare.png`, fullPage: true });
  await page.selectOption("#resolution", { index: task.backend === "server" ? 2 : 1 });
  await settled(page);
  report.steps.finer = await result(page);
}

async function play(page) {
  await choose(page, task.fluid);
  await page.fill("#frames", "6");
  await page.press("#frames", "Enter");
  await page.waitForFunction(() => pdno.predictions[0].shape[0] === 6);
  await page.click("#play");
  await page.waitForFunction(() => pdno.frame >= 2);
  await page.click("#play");
  const paused = await page.evaluate(() => pdno.frame);
  await page.waitForTimeout(700);
  report.steps.paused = (await page.evaluate(() => pdno.frame)) === paused;
  await page.click("#forward");
  report.steps.stepped = (await page.evaluate(() => pdno.frame)) - paused;
  await page.locator("#frame").fill("0");
  report.steps.played = { ...(await result(page)), frame: await page.evaluate(() => pdno.frame), time: await page.textContent("#time") };
  await page.screenshot({ path: `${task.screenshots}/${task.backend}-play.png`, fullPage: true });
}

// Another operator is chosen while an answer about the first, which a button asks for, is on its way.
async function hesitate(page, button, path) {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await choose(page, task.flow);
  await page.fill("#output", "0");
  await page.route(path, async (route) => (await held, route.continue()));
  const answer = page.waitForResponse(path);
  await page.click(button);
  await choose(page, task.other);
  release();
  await (await answer).finished();
  await page.waitForTimeout(500);
  await page.unroute(path);
}

async function look(page) {
  await choose(page, task.flow);
  await page.selectOption("#layer", "1");
  await page.click("#look");
  await page.waitForSelector('#inside [data-key="space"]');
  await page.click("#certify");
  await page.waitForSelector("#certificate:not([hidden])");
  report.steps.symbol = { figures: await page.$$eval("#inside figure", (all) => all.map((one) => one.dataset.key)), assessment: await page.textContent("#assessment") };
  await page.screenshot({ path: `${task.screenshots}/${task.backend}-symbol.png`, fullPage: true });
  await page.fill("#output", "9999");
  await page.click("#look");
  await page.waitForSelector("#status.problem");
  report.steps.message = await page.textContent("#status");
}

async function manners() {
  const page = await open({ viewport: { width: 390, height: 844 }, colorScheme: "dark" });
  report.steps.phone = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  report.steps.unnamed = await page.$$eval("button, input, select, canvas", (all) => all.filter((one) => {
    const name = one.getAttribute("aria-label") ?? one.closest("label")?.textContent ?? one.textContent;
    return one.offsetParent !== null && !name.trim();
  }).map((one) => one.outerHTML));
  report.steps.cut = await page.$$eval("#choice select", (all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.id));
  await page.keyboard.press("Tab");
  report.steps.skip = await page.evaluate(() => document.activeElement.className);
  await page.screenshot({ path: `${task.screenshots}/${task.backend}-phone.png`, fullPage: true });
}

try {
  const page = await open({ viewport: { width: 1280, height: 900 } });
  report.steps.opened = await page.evaluate(() => [pdno.playing !== null, document.getElementById("operator").selectedOptions[0].textContent]);
  await page.screenshot({ path: `${task.screenshots}/${task.backend}-open.png`, fullPage: true });
  await draw(page);
  await compare(page);
  await play(page);
  await look(page);
  if (task.backend === "server") {
    await hesitate(page, "#certify", "**/api/certificate*");
    await hesitate(page, "#look", "**/api/layer");
    report.steps.hesitated = (await page.isHidden("#certificate")) && (await page.$$("#inside figure")).length === 0;
  }
  await manners();
} catch (problem) {
  report.problems.push(`${problem.stack ?? problem}`);
} finally {
  await browser.close();
}
console.log(JSON.stringify(report));
