"""A picture of the dashboard that start.py serves:

    pip install selenium
    python examples/superset/start.py --port 8088 --password SECRET
    python examples/superset/picture.py --port 8088 --password SECRET

It needs Chromium and its driver, and writes grammar_notes/pictures/dashboard.png, or what --file names.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PICTURE = Path(__file__).resolve().parents[2] / "grammar_notes/pictures/dashboard.png"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--force-device-scale-factor=0.7",
    "--window-size=1500,1560",
]
CHARTS, PATIENCE = 12, 120


def main() -> None:
    told = arguments()
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        address = f"http://127.0.0.1:{told.port}"
        log_in(driver, address, told.password)
        driver.get(f"{address}/superset/dashboard/randhie/")
        WebDriverWait(driver, PATIENCE).until(drawn)
        time.sleep(3)  # charts move into place
        driver.save_screenshot(str(told.file))
    finally:
        driver.quit()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8088)
    parser.add_argument("--password", required=True)
    parser.add_argument("--file", type=Path, default=PICTURE)
    return parser.parse_args()


def log_in(driver: webdriver.Chrome, address: str, password: str) -> None:
    """As admin; a form that was not ready forgets what was typed, and is filled in again."""
    for _ in range(5):
        driver.get(f"{address}/login/")
        WebDriverWait(driver, PATIENCE).until(lambda seen: seen.find_elements(By.ID, "username"))
        driver.find_element(By.ID, "username").send_keys("admin")
        driver.find_element(By.ID, "password").send_keys(f"{password}\n")
        time.sleep(5)
        if "/login" not in driver.current_url:
            return
    raise SystemExit("the login was refused")


def drawn(driver: webdriver.Chrome) -> bool:
    """True once all charts show something."""
    charts = driver.find_elements(By.CSS_SELECTOR, "[data-test=chart-container]")
    shown = [chart.find_elements(By.CSS_SELECTOR, "canvas, table tbody tr, .header-line") for chart in charts]
    return len(charts) == CHARTS and all(shown)


if __name__ == "__main__":
    main()
