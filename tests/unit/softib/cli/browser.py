"""A Chromium without a window, by the DevTools protocol on pipes: no network and no driver."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60  # seconds for an answer


def program():
    """The browser that is installed; None without one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """`with Browser() as browser:` has one page. What its console says is in `console`."""

    def __init__(self, width=1280, height=900):
        self.size = width, height
        self.console = []
        self.number = 0
        self.waiting = b""
        self.session = None

    def __enter__(self):
        self.home = tempfile.TemporaryDirectory(prefix="softib-browser-", ignore_cleanup_errors=True)
        theirs_in, self.out = os.pipe()
        self.input, theirs_out = os.pipe()
        words = [program(), "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
                 "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
                 "--hide-scrollbars", f"--user-data-dir={self.home.name}", f"--window-size={self.size[0]},{self.size[1]}",
                 *(["--no-sandbox"] if os.geteuid() == 0 else []), "about:blank"]
        # The browser reads from descriptor 3 and writes to 4.
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *words],
                                        pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env=dict(os.environ, HOME=self.home.name), start_new_session=True)
        os.close(theirs_in)
        os.close(theirs_out)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Runtime", "Log", "Page":
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=self.size[0], height=self.size[1],
                  deviceScaleFactor=1, mobile=False)
        return self

    def __exit__(self, *_):
        os.close(self.out)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        os.close(self.input)
        self.home.cleanup()

    def call(self, method, **parameters):
        """Calls a method of the protocol, and returns its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.read(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def read(self, deadline):
        while b"\0" not in self.waiting:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.input], [], [], left)[0]:
                raise AssertionError("the browser does not answer")
            data = os.read(self.input, 1 << 20)
            if not data:
                raise AssertionError("the browser has ended")
            self.waiting += data
        line, self.waiting = self.waiting.split(b"\0", 1)
        message = json.loads(line)
        self.note(message)
        return message

    def note(self, message):
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.console.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif message.get("method") == "Runtime.consoleAPICalled":
            self.console.append(f"{parameters['type']}: {[each.get('value') for each in parameters['args']]}")
        elif message.get("method") == "Log.entryAdded":
            self.console.append(f"{parameters['entry']['level']}: {parameters['entry']['text']}")

    def open(self, url):
        self.call("Page.navigate", url=url)

    def value(self, expression):
        """The value of a JavaScript expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression):
        deadline = time.monotonic() + PATIENCE
        while not (value := self.value(expression)):
            if time.monotonic() > deadline:
                raise AssertionError(f"in the page: {expression}\n{self.console}")
            time.sleep(0.05)
        return value

    def press(self, key, code=0, text=""):
        for kind in "keyDown", "keyUp":
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      **({"text": text} if text and kind == "keyDown" else {}))

    def click(self, selector):
        """Clicks in the middle of an element."""
        x, y = self.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView();"
                          " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in "mousePressed", "mouseReleased":
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def prefer(self, scheme):
        """dark or light."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def accessible(self):
        """(role, name) of what a screen reader finds."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(each["role"]["value"], each.get("name", {}).get("value", "")) for each in nodes if "role" in each]

    def screenshot(self):
        """The bytes of a PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
