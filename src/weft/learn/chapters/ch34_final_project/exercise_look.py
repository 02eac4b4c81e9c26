"""Write the function: a page that shows images, so that you have seen what the network will see.

page(images, labels)     a whole HTML document as a string, well-formed as XML
It has for each image, in order, with its label L:
    <figure><svg viewBox="0 0 W H">...</svg><figcaption>L</figcaption></figure>
and in the svg, for each pixel whose value v is not 0:
    <rect x="column" y="row" width="1" height="1" fill="rgb(v,v,v)"/>
images are lists of rows of integers from 0 to 255, of any height H and width W.
"""


def page(images, labels):
    pass
